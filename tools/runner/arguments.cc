#include "tools/runner/arguments.h"

#include <unistd.h>

#include <cstdlib>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/output.h"
#include "tools/runner/usage.h"

namespace runner {
namespace {

using Program = Arguments::Program;

struct ProgramText {
  const char* option;
  std::string Program::* value;
};
constexpr ProgramText kProgramTexts[] = {
    {"--etdump", &Program::etdump},
    {"--manifest", &Program::manifest},
    {"--method", &Program::method},
    {"--output", &Program::output},
    {"--output_format", &Program::output_format},
};

struct ProgramList {
  const char* option;
  std::vector<std::string> Program::* values;
};
constexpr ProgramList kProgramLists[] = {
    {"--data", &Program::data},
    {"--input", &Program::inputs},
};

struct Text {
  const char* option;
  std::string Arguments::* value;
};
constexpr Text kTexts[] = {
    {"--app", &Arguments::app},
    {"--prompt", &Arguments::prompt},
    {"--system", &Arguments::system},
    {"--tokenizer", &Arguments::tokenizer},
};

struct Number {
  const char* option;
  int Arguments::* value;
};
constexpr Number kNumbers[] = {
    {"--max_new_tokens", &Arguments::max_new_tokens},
    {"--repeat", &Arguments::repeat},
    {"--seed", &Arguments::seed},
    {"--threads", &Arguments::threads},
};

struct Real {
  const char* option;
  double Arguments::* value;
};
constexpr Real kReals[] = {
    {"--atol", &Arguments::atol},
    {"--rtol", &Arguments::rtol},
    {"--temperature", &Arguments::temperature},
};

struct Flag {
  const char* option;
  bool Arguments::* value;
};
constexpr Flag kFlags[] = {
    {"--chat", &Arguments::chat},
    {"--json", &Arguments::json},
    {"--list", &Arguments::list},
    {"--raw_prompt", &Arguments::raw_prompt},
    {"--runtime_info", &Arguments::runtime_info},
    {"--verify", &Arguments::verify},
    {"--weight_cache", &Arguments::weight_cache},
};

template <class Options>
auto find(const Options& options, const std::string& name) -> decltype(&options[0]) {
  for (const auto& option : options) {
    if (name == option.option) {
      return &option;
    }
  }
  return nullptr;
}

int positive(const std::string& option, const std::string& value) {
  char* end = nullptr;
  const long number = strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 1 || number > 1000000) {
    fail(option + " is \"" + value + "\", wanted a number from 1 to 1000000.");
  }
  return static_cast<int>(number);
}

double not_negative(const std::string& option, const std::string& value) {
  char* end = nullptr;
  const double number = strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(number >= 0) || number > 1e300) {
    fail(option + " is \"" + value + "\", wanted a number that isn't negative.");
  }
  return number;
}

void check_format(const std::string& value) {
  if (!value.empty() && value != "npy" && value != "safetensors" && value != "raw") {
    fail("--output_format is \"" + value + "\", wanted npy, safetensors or raw.");
  }
}

void set_once(
    std::string& target,
    const std::string& option,
    const std::string& value,
    const std::string& of) {
  if (!target.empty()) {
    fail(option + " is given twice" + of + ".");
  }
  target = value;
}

// Whether there is such an option. An empty value is one that is missing.
bool set_option(Arguments& arguments, const std::string& option, const std::string& value) {
  Program& program =
      arguments.programs.empty() ? arguments.leading : arguments.programs.back();
  if (option == "--program" || option == "--bundled") {
    arguments.programs.emplace_back();
    arguments.programs.back().given = value;
    arguments.programs.back().is_bundled = option == "--bundled";
  } else if (const auto* text = find(kProgramTexts, option)) {
    set_once(program.*(text->value), option, value, " for one --program");
  } else if (const auto* list = find(kProgramLists, option)) {
    (program.*(list->values)).push_back(value);
  } else if (const auto* text = find(kTexts, option)) {
    set_once(arguments.*(text->value), option, value, "");
  } else if (const auto* number = find(kNumbers, option)) {
    arguments.*(number->value) = value.empty() ? 0 : positive(option, value);
  } else if (const auto* real = find(kReals, option)) {
    arguments.*(real->value) = value.empty() ? 0 : not_negative(option, value);
  } else {
    return false;
  }
  if (option == "--output_format") {
    check_format(value);
  }
  return true;
}

}  // namespace

Arguments parse_arguments(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string option = values[i];
    if (option == "--help" || option == "-h") {
      print(kUsage);
      _exit(0);
    }
    if (const auto* flag = find(kFlags, option)) {
      arguments.*(flag->value) = true;
      continue;
    }
    const size_t equals = option.find('=');
    const bool has_equals = option.rfind("--", 0) == 0 && equals != std::string::npos;
    const bool has_value = has_equals || i + 1 < count;
    const std::string value = has_equals ? option.substr(equals + 1)
        : has_value                      ? values[i + 1]
                                         : "";
    option = has_equals ? option.substr(0, equals) : option;
    if (!set_option(arguments, option, value)) {
      fail("there is no option \"" + option + "\"; --help lists them.");
    }
    if (value.empty()) {
      fail(option + " lacks a value; --help lists the options.");
    }
    i += has_equals ? 0 : 1;
  }
  return arguments;
}

std::string option_of(const Program& leading) {
  for (const ProgramText& text : kProgramTexts) {
    if (!(leading.*(text.value)).empty()) {
      return text.option;
    }
  }
  for (const ProgramList& list : kProgramLists) {
    if (!(leading.*(list.values)).empty()) {
      return list.option;
    }
  }
  return "";
}

}  // namespace runner
