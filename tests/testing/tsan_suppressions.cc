// What ThreadSanitizer cannot see is in order, because a packaged library is not instrumented.
// Linked into every test of the tsan tree.

// abseil counts references of a Status in its library: the count orders, unseen, the last owner's
// delete after the others' reads.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:absl::*::Status::Unref\n";
}
