// The command line.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct Arguments {
  // A --program, and what follows it up to the next one.
  struct Program {
    std::string path;
    std::string manifest;
    std::vector<std::string> data;
    std::string method;
    std::vector<std::string> inputs;
    std::string output;
  };

  std::vector<Program> programs;
  int repeat = 1;
  int threads = 0;  // 0: the runtime's choice.
  bool weight_cache = false;
  bool verify = false;
  bool json = false;
};

// Ends the process with a sentence if the command line is wrong, and with the usage for --help.
Arguments parse_arguments(int count, char** values);

}  // namespace runner
