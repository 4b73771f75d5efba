// Remembers that this process loads a program. If the process ends meanwhile, by a crash or because somebody kills it,
// the mark stays, and the next process knows.
#pragma once

#include <string>

#include "tools/runner/base/result.h"

namespace runner {

class LoadMark {
 public:
  // Marks the start. An error says that an earlier process ended while it loaded the program of that mark. No mark is
  // written, if the file cannot be, or if another process that lives has it.
  static Result<LoadMark> begin(const std::string& path);
  LoadMark(LoadMark&& other) noexcept : path_(std::move(other.path_)), file_(other.file_) { other.file_ = -1; }
  LoadMark& operator=(LoadMark&&) = delete;
  // Loading ended, well or not: removes the mark.
  ~LoadMark();

 private:
  LoadMark(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;  // -1: there is no mark.
};

}  // namespace runner
