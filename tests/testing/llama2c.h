// Reads the models of llama2.c.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/formats/dtype.h"
#include "tests/testing/test_model.h"

namespace tandem::testing {

// llama2.c's model file (float, version 0: seven i32, then f32 weights, interleaved RoPE) and its
// tokenizer. Rows of q and k come in Hugging Face's order, matrices in `dtype` where it fits (else
// DTypeForRows). llama2.c has eps 1e-5 and theta 10000.
// Errors: those of MappedFile::Open; InvalidArgument when a size does not fit.
StatusOr<TestModel> LoadLlama2c(const std::string& model_path, const std::string& tokenizer_path,
                                formats::DType dtype = formats::DType::kF32);

}  // namespace tandem::testing
