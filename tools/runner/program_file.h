// The outer layout of a .pte file (program.fbs): header, tables, segments.
#pragma once

#include "tools/runner/mapped_file.h"

namespace runner {

// Ends the process with a sentence if it is no .pte file, or its segments don't lie in it.
void check_program_file(const MappedFile& file);

}  // namespace runner
