// KernelFlags: PyTorch's settings of the whole process that decide which kernel an op runs, how
// that kernel rounds, or of which type its result is. docs/limits.md has the list of all settings.
//
// A value. Threads: any; a change by set() is seen by all threads, as the program's own changes
// are.
#pragma once

#include <ATen/Context.h>

#include <array>
#include <cstdint>

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
  static constexpr size_t kChoiceCount = 21;
  static constexpr size_t kPrecisionCount = 6;

  std::array<int64_t, kChoiceCount> choices_ = {};
  std::array<at::Float32Precision, kPrecisionCount> precisions_ = {};
};

}  // namespace teraio::pytorch
