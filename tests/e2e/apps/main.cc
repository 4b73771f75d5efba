// A main of one's own: prints the first number that a program gives for ones.
#include <cstdio>
#include <vector>

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

int main(int count, char** values) {
  if (count != 2) {
    fprintf(stderr, "usage: %s PROGRAM.pte\n", values[0]);
    return 2;
  }
  executorch::extension::Module module(values[1]);
  auto input = executorch::extension::make_tensor_ptr({2, 3}, std::vector<float>(6, 1.0f));
  const auto outputs = module.forward(input);
  if (!outputs.ok()) {
    fprintf(stderr, "%s failed: error %d\n", values[1], static_cast<int>(outputs.error()));
    return 1;
  }
  printf("custom main: %g\n", outputs->at(0).toTensor().const_data_ptr<float>()[0]);
  return 0;
}
