// The session whose hooks are on. At most one at a time in a process.
#pragma once

#include <memory>

#include "device_backend.h"
#include "engine/runtime.h"

namespace teraio::pytorch {

struct ActiveSession {
  std::shared_ptr<engine::Runtime> runtime;
  DeviceBackend* backend = nullptr;
  int64_t smallest_tensor_bytes = 0;  // storages from before the session move in from this size on
  int64_t chunk_bytes = 0;            // list ops over more bytes than this run in pieces
  bool is_dry = false;                // tensors are fake: their storages have a size and no bytes
  bool has_streams = false;  // the backend's: threads may be on several, or capture what they do
};

// Null when no session runs. The pointer stays valid for the process's life: sessions are kept, so
// that a thread that is inside an op while a session ends has what it needs.
ActiveSession* active_session();
void set_active_session(ActiveSession* session);

}  // namespace teraio::pytorch
