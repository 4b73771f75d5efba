// The command line.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

struct Arguments {
  // A --program or --bundled, and the options up to the next one.
  struct Program {
    std::string given;  // A path, or the name of an app's program; "": none.
    bool is_bundled = false;
    std::string manifest;
    std::vector<std::string> data;
    std::string method;
    std::vector<std::string> inputs;
    std::vector<std::string> texts;  // Instead of inputs; two belong together.
    std::string output;
    std::string output_format;
    std::string etdump;
  };

  // Options before the first program: for the only program of an app.
  Program leading;
  std::vector<Program> programs;
  std::string app;  // Folder of an app, or its manifest; "": the app that contains the runner.
  std::vector<std::string> variants;
  std::vector<std::string> device;
  std::string state;
  int repeat = 1;
  int threads = 0;  // 0: the runtime's choice.
  double atol = 1e-4;  // Of a bundle's outputs.
  double rtol = 1e-4;
  std::string prompt;  // "": programs run with inputs.
  std::vector<std::string> media;
  std::string system;
  std::string tokenizer;
  double temperature = 0;
  int max_new_tokens = 256;
  int seed = 0;  // 0: a random seed.
  bool chat = false;
  bool parse_special = false;
  bool raw_prompt = false;
  bool weight_cache = false;  // Neither: where the manifests prove that it is safe.
  bool no_weight_cache = false;
  bool verify = false;
  bool json = false;
  bool list = false;
  bool runtime_info = false;
  bool help = false;  // The arguments after it are not parsed.

  // Tells whether a language model answers, instead of runs with inputs.
  bool answers() const { return chat || !prompt.empty(); }
};

// An error, if the command line is wrong.
Result<Arguments> parse_arguments(int count, char** values);

// The text that --help prints.
extern const char kUsage[];

// The first option with a value in `leading`; "": none.
std::string option_of(const Arguments::Program& leading);

}  // namespace runner
