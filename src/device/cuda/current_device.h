// CurrentDevice: makes a GPU the calling thread's current one while the object lives.
//
// The program's threads have a current GPU of their own, on which PyTorch allocates and launches.
// Calls that need another one must leave it as it was.
//
// Threads: one creates and destroys the object. Ignores errors: the call that needs the GPU fails
// with them.
#pragma once

#include <cstdint>

namespace teraio::device {

class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = -1;  // -1: nothing to restore
};

}  // namespace teraio::device
