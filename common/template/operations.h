// Operators and accesses, as Python and Jinja define them.
#pragma once

#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "common/template/builtins.h"
#include "common/template/value.h"

namespace tandem::chat_template {

// All: InvalidArgument where Python raises, and where its result is beyond this subset;
// ResourceExhausted over the budget.

// + - * / // %
StatusOr<Value> Arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget);
StatusOr<Value> Negate(const Value& value);
// < <= > >=
StatusOr<bool> Ordered(std::string_view op, const Value& a, const Value& b);
// `item` in `container`
StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget);

// subject.name
StatusOr<Value> GetAttribute(const Value& subject, std::string_view name);
// subject[key]
StatusOr<Value> GetItem(const Value& subject, const Value& key, Budget& budget);
// subject[start:stop:step], with none for a bound that is absent
StatusOr<Value> GetSlice(const Value& subject, const Value& start, const Value& stop,
                         const Value& step, Budget& budget);

// What a `for` over the value goes through.
StatusOr<std::shared_ptr<const List>> Iterate(const Value& value, Budget& budget);

// "'x' is undefined"
Status UndefinedError(const Value& value);

}  // namespace tandem::chat_template
