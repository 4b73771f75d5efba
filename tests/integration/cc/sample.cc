// Uses what apps use of C and C++, so that a link shows what a toolchain lacks.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/integration/cc/part.h"

namespace {

thread_local int calls = 1;

// Anything that no processor does by itself comes out of the compiler's library, and sin out of the system's.
double halves(int count) {
  const long double wide = count + sin(0.0 * count);
  const unsigned __int128 big = static_cast<unsigned __int128>(count) << 70;
  calls += static_cast<int>((big / 3) >> 70);
  return static_cast<double>(wide * 0.5L) + calls;
}

// Runs before main, unless start files and registration at exit don't fit the system.
struct Registered {
  Registered() { counter() += 1; }
  ~Registered() { puts("bye"); }
} registered;

std::optional<std::string> first_line(const std::string& path) {
  FILE* file = fopen(path.c_str(), "r");
  if (!file) return std::nullopt;
  char line[64] = {};
  const char* got = fgets(line, sizeof line, file);
  fclose(file);
  return got ? std::optional<std::string>(line) : std::nullopt;
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, int> words;
  for (int i = 1; i < count; i++) words[arguments[i]] += i;
  std::unordered_map<std::string, int> lengths;
  for (const auto& [word, _] : words) lengths[word] = static_cast<int>(word.size());

  auto numbers = std::make_unique<std::vector<int>>();
  for (int i = 0; i < 5; i++) numbers->push_back(5 - i);
  std::sort(numbers->begin(), numbers->end());

  std::mutex mutex;
  int sum = 0;
  std::vector<std::thread> threads;
  for (int n : *numbers)
    threads.emplace_back([&, n] {
      std::lock_guard<std::mutex> lock(mutex);
      sum += n;
    });
  for (auto& thread : threads) thread.join();

  const auto started = std::chrono::steady_clock::now();
  std::function<int(int)> twice = [](int x) { return 2 * x; };
  std::ostringstream text;
  text << "sum " << twice(sum) << ' ' << halves(count - 1) << ' ' << counter();
  const std::string_view view = "a view";
  printf("%s %zu %.*s\n", text.str().c_str(), words.size(), static_cast<int>(view.size()), view.data());

  errno = 0;
  const auto missing = first_line("no such file");
  printf("missing %d %s\n", missing.has_value(), strerror(errno));
  if (count > 1) printf("file %s", first_line(arguments[1]).value_or("none\n").c_str());
  assert(sysconf(_SC_PAGESIZE) >= 4096);
  assert(std::chrono::steady_clock::now() >= started);
  fprintf(stderr, "%s\n", part_of(lengths.empty() ? "nothing" : lengths.begin()->first).c_str());
  return 0;
}
