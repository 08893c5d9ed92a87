// A program's flags, each also a key of its configuration file (TOML or INI: `port = 8000` for
// --port).
//
//   int port = 8000;
//   ProgramOptions options("tandem-router", "Speaks the OpenAI API and owns every request.");
//   options.Add("port", "PORT", "TCP port of the API", Int(&port, 0, 65535));
//   switch (options.Parse(argc, argv)) { case ...::kRun: … }
//
// A flag on the command line wins over the file. Help shows the variable's value at Add() as the
// default.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/base/units.h"

namespace tandem::config {

// How one value is read from text and shown as a default.
struct Value {
  std::function<Status(const std::string&)> parse;
  std::string shown;               // the default; empty: none
  bool is_switch = false;          // takes no argument on the command line
  std::vector<std::string> words;  // valid words, for the help
};

Value Text(std::string* into);
Value List(std::vector<std::string>* into);  // separated by commas; the flag may be repeated
Value Int(int* into, int lowest, int highest);
Value Number(double* into, double lowest, double highest);
Value Switch(bool* into);
// One of `words`. Errors name the nearest.
Value Choice(std::string* into, std::vector<std::string> words);
Value Bytes(ByteCount* into);   // "512M", "2GiB", "65536": powers of 1024
Value Seconds(Duration* into);  // "30s", "250ms", "2m", "1h"

class ProgramOptions {
 public:
  enum class Outcome { kRun, kShown };

  // Adds --config, --help and --version.
  ProgramOptions(std::string name, std::string purpose);
  ~ProgramOptions();

  // `flag` without dashes; `placeholder` names the value with its unit in the help.
  void Add(std::string flag, std::string placeholder, std::string help, Value value);

  // kShown: help or version was printed. Errors: InvalidArgument naming flag or key, value and what
  // is valid.
  StatusOr<Outcome> Parse(int argc, const char* const* argv);

  // What --help prints.
  std::string Help() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::config
