// The outer layout of a .pte file (program.fbs): header, tables, segments.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tools/runner/base/mapped_file.h"

namespace runner {

// The named data inside of the file: key to bytes.
//
// Ends the process with a sentence if it is no .pte file, or its segments don't lie in it.
std::map<std::string, uint64_t> check_program_file(const MappedFile& file);

}  // namespace runner
