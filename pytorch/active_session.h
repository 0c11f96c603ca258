// ActiveSession: what the hooks need from the session that is on. A process has at most one.
#pragma once

#include <memory>

#include "device_backend.h"
#include "engine/runtime.h"

namespace teraio::pytorch {

struct ActiveSession {
  std::shared_ptr<engine::Runtime> runtime;
  DeviceBackend* backend = nullptr;
  int64_t smallest_tensor_bytes =
      0;                     // storages from before the session are adopted from this size on
  int64_t chunk_bytes = 0;   // list ops over more bytes than this run in pieces
  bool is_dry = false;       // tensors are fake: their storages have a size and no bytes
  bool has_streams = false;  // as DeviceBackend::has_streams()
};

// Returns null when no session runs. The pointer stays valid until the process ends, because a
// thread may still be inside an op when its session ends.
ActiveSession* active_session();
void set_active_session(ActiveSession* session);

}  // namespace teraio::pytorch
