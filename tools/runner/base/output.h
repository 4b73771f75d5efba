// What the runner writes: standard output, files and folders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

// To standard output at once; ends the process with a sentence if that can't be written.
void print(std::string_view text);

// A file of some pieces; ends the process with a sentence if it can't be written.
void write_file(const std::string& path, const std::vector<std::string_view>& pieces);

// Makes a folder and those that it lies in; ends the process with a sentence if it can't.
void make_folders(const std::string& path);

// A number with so many digits after the point.
std::string with_digits(double number, int digits);

// A number as short as eight digits make it: "1.0803342e-07".
std::string short_text(double number);

}  // namespace runner
