// Prints the first number that a program gives for ones.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

int main(int count, char** values) {
  if (count < 2) {
    fprintf(stderr, "usage: %s PROGRAM.pte [DATA.ptd...]\n", values[0]);
    return 2;
  }
  const std::vector<std::string> data(values + 2, values + count);
  executorch::extension::Module module(values[1], data);
  auto input = executorch::extension::make_tensor_ptr({1, 1024}, std::vector<float>(1024, 1.0f));
  const auto outputs = module.forward(input);
  if (!outputs.ok()) {
    fprintf(stderr, "%s failed: error %d\n", values[1], static_cast<int>(outputs.error()));
    return 1;
  }
  printf("%g\n", outputs->at(0).toTensor().const_data_ptr<float>()[0]);
  return 0;
}
