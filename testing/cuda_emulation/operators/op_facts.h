// What the emulation knows of an operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace teraio::testing::emulated_cuda {

// A tensor that an operator makes.
struct TensorShape {
  bool is_defined = false;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType type{};
};

// A result: no tensor (a number, or an argument), one, or a list.
struct ResultShape {
  std::vector<TensorShape> tensors;
  bool is_list = false;
};

struct OpFacts {
  std::string name;  // "aten::add.Tensor"
  // For each result, the index of the argument that it is; -1 when it is new.
  std::vector<int32_t> argument_of_result;
  int32_t generator_index = -1;
  int32_t dropout_index = -1;  // of attention's dropout_p: without dropout, it draws no numbers
  bool is_random = false;
  bool makes_results = false;
  // Arguments of the same shapes give results of the same shapes.
  bool is_known_by_shape = true;

  // By the shapes of the arguments. Threads: with the mutex. Elements never move.
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<ResultShape>> results;
};

std::string full_name(const c10::FunctionSchema& schema);

// The facts of `op`, which live as long as the process. Threads: any.
OpFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace teraio::testing::emulated_cuda
