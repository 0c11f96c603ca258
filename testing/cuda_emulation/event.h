// An event, as a program holds it.
#pragma once

#include <memory>

#include "testing/cuda_emulation/executor.h"

namespace teraio::testing::emulated_cuda {

struct Event {
  unsigned flags = 0;
  int32_t device = 0;                // only its streams record the event
  PointPtr point;                    // of the last record; null: never recorded
  std::shared_ptr<Capture> capture;  // the last record was captured by it; null otherwise
};

}  // namespace teraio::testing::emulated_cuda
