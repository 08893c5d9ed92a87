// Random models that between them have every variant of the network and every type of weight.
#pragma once

#include <string>
#include <vector>

#include "tests/testing/test_model.h"

namespace tandem::testing {

struct SmallModel {
  std::string name;  // as reference/small_models.json has it
  TestModel model;
};

std::vector<SmallModel> SmallModels();

}  // namespace tandem::testing
