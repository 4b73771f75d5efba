// The outer layout of a .pte file (program.fbs): header, tables, segments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace runner {

// The named data inside of a program: key to bytes. `path` is for sentences.
//
// Ends the process with a sentence if it is no .pte file, or its segments don't lie in it.
std::map<std::string, uint64_t> check_program_file(const std::string& path, std::string_view bytes);

}  // namespace runner
