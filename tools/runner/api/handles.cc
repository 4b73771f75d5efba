#include "tools/runner/api/handles.h"

#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <iterator>

#include "tools/runner/base/lock.h"

namespace runner {
namespace {

// More than any program has, and few enough for a count that is no count to be noticed.
constexpr size_t kMaxTexts = 1000;

uintptr_t this_thread() {
  return (uintptr_t)pthread_self();
}

struct Entry {
  Kind kind;
  std::shared_ptr<void> object;
  const void* parent;  // nullptr: none.
};

using Entries = std::map<const void*, Entry>;

std::atomic_flag entries_are_locked = ATOMIC_FLAG_INIT;
// Never freed: other threads may call while the process ends.
Entries* entries = nullptr;
uintptr_t last_handle = 0;

Use* use_of_entry(const Entry& entry) {
  switch (entry.kind) {
    case Kind::kApp:
      return nullptr;
    case Kind::kSession:
      return use_of(*static_cast<executorch_app_session*>(entry.object.get()));
    case Kind::kChat:
      return use_of(*static_cast<executorch_app_chat*>(entry.object.get()));
    case Kind::kTokenizer:
      return use_of(*static_cast<executorch_app_tokenizer*>(entry.object.get()));
  }
  return nullptr;
}

// Tells whether an entry is `handle`'s, or that of something that it opened.
bool is_below(Entries::const_iterator entry, const void* handle) {
  while (entry != entries->end() && entry->first != handle) {
    entry = entry->second.parent == nullptr ? entries->end() : entries->find(entry->second.parent);
  }
  return entry != entries->end();
}

// Takes the handle and its children out of the list, without allocating; they end with their last call.
// INVALID_ARGUMENT: none is taken.
executorch_app_code take_handles(Kind kind, const void* handle, Entries& taken) {
  const Lock lock(entries_are_locked);
  const auto found = entries == nullptr ? Entries::const_iterator() : entries->find(handle);
  if (entries == nullptr || found == entries->end()) {
    return EXECUTORCH_APP_OK;
  }
  if (found->second.kind != kind) {
    return EXECUTORCH_APP_INVALID_ARGUMENT;
  }
  for (auto at = entries->cbegin(); at != entries->cend(); ++at) {
    const Use* const use = is_below(at, handle) ? use_of_entry(at->second) : nullptr;
    if (use != nullptr && use->is_own()) {
      return EXECUTORCH_APP_INVALID_ARGUMENT;
    }
  }
  // Children have larger numbers: from the end, so that parents are there while their children are looked for.
  for (auto at = entries->cend(); at != entries->cbegin();) {
    --at;
    if (is_below(at, handle)) {
      const auto next = std::next(at);
      taken.insert(entries->extract(at));
      at = next;
    }
  }
  return EXECUTORCH_APP_OK;
}

}  // namespace

const char* Use::begin() {
  if (is_own()) {
    return "a listener of its answer called, expected a call after the answer. Return false to end the answer, and call "
           "it then.";
  }
  uintptr_t nobody = 0;
  if (!thread_.compare_exchange_strong(nobody, this_thread())) {
    return "another thread uses it, expected one thread at a time. Call it when the other call has returned.";
  }
  while (looks_ > 0) {
    sched_yield();
  }
  if (is_broken_) {
    end();
    return "memory ran out while an earlier call changed it, expected one that is whole. Close its session, and open "
           "another one.";
  }
  return nullptr;
}

void Use::end() {
  thread_ = 0;
}

Use::Look::Look(Use& use) : use_(use) {
  use_.looks_ += 1;
  const uintptr_t thread = use_.thread_;
  is_possible_ = thread == 0 || thread == this_thread();
}

bool Use::is_own() const {
  return thread_ == this_thread();
}

Result<std::vector<std::string>> texts_of(const char* const* texts, size_t count, const std::string& what) {
  if (count > kMaxTexts) {
    return error(
        what + ": count: got " + std::to_string(count) + ", expected at most " + std::to_string(kMaxTexts) + ".");
  }
  if (texts == nullptr && count > 0) {
    return error(what + ": got NULL, expected a list of " + std::to_string(count) + ".");
  }
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) {
      return error(what + "[" + std::to_string(i) + "]: got NULL, expected a text.");
    }
    all.emplace_back(texts[i]);
  }
  return all;
}

void* add_handle(Kind kind, std::shared_ptr<void> object, const void* parent) {
  const Lock lock(entries_are_locked);
  if (entries == nullptr) {
    entries = new Entries();
  }
  if (parent != nullptr && entries->count(parent) == 0) {
    return nullptr;
  }
  const auto handle = reinterpret_cast<void*>(last_handle + 1);
  entries->insert({handle, {kind, std::move(object), parent}});
  last_handle += 1;
  return handle;
}

std::shared_ptr<void> find_handle(Kind kind, const void* handle) {
  const Lock lock(entries_are_locked);
  if (entries == nullptr) {
    return nullptr;
  }
  const auto found = entries->find(handle);
  return found == entries->end() || found->second.kind != kind ? nullptr : found->second.object;
}

executorch_app_code close_handle(Kind kind, const void* handle) {
  return caught(
      [&]() -> executorch_app_code {
        Entries taken;
        const executorch_app_code code = take_handles(kind, handle, taken);
        for (const auto& [_, entry] : taken) {
          // Another thread's answer ends after its next token.
          if (entry.kind == Kind::kChat) {
            static_cast<executorch_app_chat*>(entry.object.get())->chat->stop();
          }
        }
        // Children first, as they are in their parents' memory.
        while (!taken.empty()) {
          taken.erase(std::prev(taken.end()));
        }
        return code;
      },
      [](const char*) { return EXECUTORCH_APP_FAILED; });
}

}  // namespace runner
