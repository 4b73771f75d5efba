#include "tools/runner/arguments.h"

#include <unistd.h>

#include <cstdlib>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/output.h"
#include "tools/runner/base/paths.h"

namespace runner {
namespace {

constexpr char kUsage[] =
    "runner --program A.pte [--manifest A.manifest.json] [--data F.ptd]... [--method NAME]\n"
    "       [--input X.npy]... [--output DIR] [--program B.pte ...]\n"
    "       [--repeat N] [--threads N] [--weight_cache] [--verify] [--json]\n"
    "\n"
    "Loads all programs into this process, then runs each.\n"
    "\n"
    "  --program FILE    starts a group; the next five options belong to it\n"
    "  --manifest FILE   what the linker wrote of it; checked before anything is loaded\n"
    "  --data FILE       a .ptd file; default: the manifest's, beside the program\n"
    "  --method NAME     default: forward, or the only one\n"
    "  --input FILE      one .npy file per input; default: made of the method's metadata\n"
    "  --output DIR      writes the outputs to DIR/output_0.npy, ...\n"
    "  --repeat N        runs per program, default 1\n"
    "  --threads N       default: what the runtime chooses for this machine\n"
    "  --weight_cache    XNNPACK keeps equal weights of all programs once in memory\n"
    "  --verify          hashes each program and all data that its manifest names\n"
    "  --json            prints times and memory as JSON\n";

int positive(const std::string& option, const std::string& value) {
  char* end = nullptr;
  const long number = strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 1 || number > 1000000) {
    fail(option + " is \"" + value + "\", wanted a number from 1 to 1000000.");
  }
  return static_cast<int>(number);
}

void set_once(std::string& target, const std::string& option, const std::string& value) {
  if (!target.empty()) {
    fail(option + " is given twice for one --program.");
  }
  target = value;
}

// Whether it is an option of a program.
bool set_program_option(
    Arguments& arguments,
    const std::string& option,
    const std::string& value) {
  if (option == "--program") {
    arguments.programs.push_back({value, "", {}, "", {}, ""});
    return true;
  }
  const bool known = option == "--manifest" || option == "--data" || option == "--method" ||
      option == "--input" || option == "--output";
  if (!known) {
    return false;
  }
  if (arguments.programs.empty()) {
    fail(option + " stands before the first --program, which it must follow.");
  }
  Arguments::Program& program = arguments.programs.back();
  if (option == "--data") {
    program.data.push_back(value);
  } else if (option == "--input") {
    program.inputs.push_back(value);
  } else if (option == "--manifest") {
    set_once(program.manifest, option, value);
  } else if (option == "--method") {
    set_once(program.method, option, value);
  } else {
    set_once(program.output, option, value);
  }
  return true;
}

bool set_flag(Arguments& arguments, const std::string& option) {
  bool* flag = option == "--weight_cache" ? &arguments.weight_cache
      : option == "--verify"              ? &arguments.verify
      : option == "--json"                ? &arguments.json
                                          : nullptr;
  if (flag != nullptr) {
    *flag = true;
  }
  return flag != nullptr;
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
    if (set_flag(arguments, option)) {
      continue;
    }
    const size_t equals = option.find('=');
    const bool has_equals = option.rfind("--", 0) == 0 && equals != std::string::npos;
    const bool has_value = has_equals || i + 1 < count;
    const std::string value = has_equals ? option.substr(equals + 1)
        : has_value                      ? values[i + 1]
                                         : "";
    option = has_equals ? option.substr(0, equals) : option;
    const bool known = set_program_option(arguments, option, value) || option == "--repeat" ||
        option == "--threads";
    if (!known) {
      fail("there is no option \"" + option + "\"; --help lists them.");
    }
    if (!has_value || value.empty()) {
      fail(option + " lacks a value; --help lists the options.");
    }
    if (option == "--repeat") {
      arguments.repeat = positive(option, value);
    } else if (option == "--threads") {
      arguments.threads = positive(option, value);
    }
    i += has_equals ? 0 : 1;
  }
  if (arguments.programs.empty()) {
    fail("there is no --program; --help lists the options.");
  }
  for (Arguments::Program& program : arguments.programs) {
    const std::string manifest = without_extension(program.path) + ".manifest.json";
    if (program.manifest.empty() && is_file(manifest)) {
      program.manifest = manifest;
    }
  }
  return arguments;
}

}  // namespace runner
