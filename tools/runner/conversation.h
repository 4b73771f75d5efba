// --prompt and --chat: the conversation of a command line.
//
// Each turn of a conversation has an answer, or is in `unanswered` with the reason: no turn is silently lost.
// Only a failure of the program itself, or of standard input and output, ends the conversation.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/arguments.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"
#include "tools/runner/calls.h"

namespace runner {

// An error for options of prompts without a prompt, and for options of runs with inputs beside a prompt.
Status check_prompt_options(const Arguments& arguments);

// A message without an answer.
struct UnansweredTurn {
  size_t turn;  // From 1 on; includes answered turns.
  std::string problem;
};

struct Conversation {
  std::vector<nlohmann::ordered_json> answers;
  std::vector<UnansweredTurn> unanswered;

  size_t turns() const { return answers.size() + unanswered.size(); }
};

// Answers --prompt, and with --chat each line of standard input. Prints answers as they are generated, unless
// --json is given. With --chat, prints a note for a line without an answer and continues; when the context is full, the
// next line begins another conversation. Fills in `conversation` step by step, also before an error.
Status converse(const Arguments& arguments, const OpenProgram& program, Conversation& conversation);

}  // namespace runner
