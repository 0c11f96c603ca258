// KernelFlags: PyTorch's settings of the whole process that decide which kernel an op runs, or how
// that kernel rounds.
//
// A value. Threads: any; a change by set() is seen by all threads, as the program's own changes
// are.
#pragma once

#include <ATen/Context.h>

#include <array>
#include <bitset>

namespace teraio::pytorch {

class KernelFlags {
 public:
  static KernelFlags current();

  // Makes these the current ones, but for the precision of float32 products (TF32). The latter is
  // inherited from more general settings, and PyTorch does not tell which of them the program has
  // made: what is changed could not be changed back.
  void set() const;
  // Whether float32 products on a device have the current precision.
  bool has_current_precision(c10::DeviceType device) const;
  bool has_precision_of(const KernelFlags& other) const { return precisions_ == other.precisions_; }

  bool operator==(const KernelFlags&) const = default;

 private:
  static constexpr size_t kSwitchCount = 9;
  static constexpr size_t kPrecisionCount = 6;

  std::bitset<kSwitchCount> switches_;
  std::array<at::Float32Precision, kPrecisionCount> precisions_ = {};
  at::CuBLASReductionOption float16_reduction_ = {};
  at::CuBLASReductionOption bfloat16_reduction_ = {};
};

}  // namespace teraio::pytorch
