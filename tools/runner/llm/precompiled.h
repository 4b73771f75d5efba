// "Precompiled" in a tokenizer.json: sentencepiece's table of replacements, which T5 and XLM-R have.
#pragma once

#include <memory>

#include "tools/runner/llm/normalizer.h"

namespace runner {

// From the member "precompiled_charsmap". An error if the table is damaged.
Result<std::unique_ptr<Normalizer>> make_precompiled(const JsonValue& json);

}  // namespace runner
