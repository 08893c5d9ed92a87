#include "common/config/program_options.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/config/nearest.h"

#ifndef TANDEM_VERSION
#error "the build defines TANDEM_VERSION"
#endif

namespace tandem::config {
namespace {

struct Entry {
  std::string flag;
  std::string placeholder;
  std::string help;
  Value value;
};

constexpr std::size_t kHelpColumn = 28;
constexpr std::size_t kHelpWidth = 100;

// Appends `text` in lines of at most kHelpWidth, starting at kHelpColumn.
void Wrap(std::string& out, std::size_t at, std::string_view text) {
  while (!text.empty()) {
    std::size_t cut = text.size();
    if (cut > kHelpWidth - kHelpColumn) {
      cut = text.rfind(' ', kHelpWidth - kHelpColumn);
      if (cut == std::string_view::npos) cut = text.size();
    }
    if (at < kHelpColumn) out.append(kHelpColumn - at, ' ');
    out += text.substr(0, cut);
    out += '\n';
    text.remove_prefix(std::min(text.size(), cut + 1));
    at = 0;
  }
}

}  // namespace

struct ProgramOptions::State {
  CLI::App app;
  std::string name;
  std::string purpose;
  std::vector<Entry> entries;
  std::vector<std::string> flags;
};

ProgramOptions::ProgramOptions(std::string name, std::string purpose)
    : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->purpose = std::move(purpose);
  state_->app.set_help_flag();
  state_->app.add_flag("--help,-h");
  state_->app.add_flag("--version");
  state_->app.set_config("--config")->check(CLI::ExistingFile);
  state_->app.allow_config_extras(CLI::config_extras_mode::error);
  state_->flags = {"--help", "--version", "--config"};
}

ProgramOptions::~ProgramOptions() = default;

void ProgramOptions::Add(std::string flag, std::string placeholder, std::string help, Value value) {
  const std::string dashed = "--" + flag;
  const auto parse = [flag, read = value.parse](const std::string& text) {
    if (Status status = read(text); !status.ok()) {
      // CLI11 takes errors as exceptions; Parse() turns it back.
      throw CLI::ValidationError("--" + flag + " " + std::string(FromAbsl(status.message())));
    }
  };
  if (value.is_switch) {
    state_->app.add_flag_function(
        dashed, [parse](std::int64_t count) { parse(count > 0 ? "true" : "false"); });
  } else {
    state_->app
        .add_option_function<std::vector<std::string>>(
            dashed,
            [parse](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) parse(text);
            })
        ->allow_extra_args(false);
  }
  state_->flags.push_back(dashed);
  state_->entries.push_back(
      {std::move(flag), std::move(placeholder), std::move(help), std::move(value)});
}

StatusOr<ProgramOptions::Outcome> ProgramOptions::Parse(int argc, const char* const* argv) {
  CLI::App& app = state_->app;
  const auto advice = [&](std::string_view word) { return DidYouMean(word, state_->flags); };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extra = app.remaining();
    const std::string word = extra.empty() ? "" : extra.front().substr(0, extra.front().find('='));
    return InvalidArgument("unknown argument '{}'{} (see {} --help)", word, advice(word),
                           state_->name);
  } catch (const CLI::ConfigError& error) {
    constexpr std::string_view kPrefix = "INI was not able to parse ";
    std::string key = error.what();
    if (!key.starts_with(kPrefix)) return InvalidArgument("--config: {}", key);
    key.erase(0, kPrefix.size());
    const auto nearest = Nearest("--" + key, state_->flags);
    return InvalidArgument("{}: unknown key '{}'{}", app.get_config_ptr()->as<std::string>(), key,
                           nearest ? "; did you mean '" + nearest->substr(2) + "'?" : "");
  } catch (const CLI::ParseError& error) {
    return InvalidArgument("{}", error.what());
  }
  if (app.count("--help") > 0) {
    std::fputs(Help().c_str(), stdout);
    return Outcome::kShown;
  }
  if (app.count("--version") > 0) {
    std::printf("%s %s\n", state_->name.c_str(), TANDEM_VERSION);
    return Outcome::kShown;
  }
  return Outcome::kRun;
}

std::string ProgramOptions::Help() const {
  std::string out = fmt::format("usage: {} [--FLAG VALUE]…\n{}\n\n", state_->name, state_->purpose);
  const auto line = [&](const std::string& left, const std::string& help) {
    out += "  " + left;
    std::size_t at = left.size() + 2;
    if (at + 1 > kHelpColumn) {
      out += '\n';
      at = 0;
    }
    Wrap(out, at, help);
  };
  for (const Entry& entry : state_->entries) {
    std::string help = entry.help;
    if (!entry.value.words.empty()) help += fmt::format(": {}", fmt::join(entry.value.words, ", "));
    if (!entry.value.shown.empty()) help += fmt::format(" ({})", entry.value.shown);
    line("--" + entry.flag + (entry.value.is_switch ? "" : " " + entry.placeholder), help);
  }
  line("--config FILE", "read further flags from FILE, one 'flag = value' a line");
  line("--help, --version", "print this, or the version");
  return out;
}

}  // namespace tandem::config
