// Crashes of the runtime end as other errors do.
#pragma once

namespace runner {

// Makes the runtime's aborts and crashes (SIGSEGV, ...) end as `fail` does, and keeps its messages.
//
// The runtime trusts what it reads: a damaged program that passes all checks may still crash it.
void guard_against_crashes();

}  // namespace runner
