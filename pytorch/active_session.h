// ActiveSession: what the hooks need from the running session. A process has at most one.
#pragma once

#include <memory>

#include "device_backend.h"
#include "engine/runtime.h"

namespace teraio::pytorch {

struct ActiveSession {
  std::shared_ptr<engine::Runtime> runtime;
  DeviceBackend* backend = nullptr;
  // The size from which on storages are adopted that PyTorch allocated outside of the session.
  int64_t smallest_tensor_bytes = 0;
  int64_t chunk_bytes = 0;   // list ops over more bytes than this run in pieces
  bool is_dry = false;       // tensors are fake: their storages have a size and no bytes
  bool has_streams = false;  // the value of DeviceBackend::has_streams()
};

// Returns the running session, or null when none runs. The pointer of a session on
// real tensors stays valid until the process ends, because a thread may still be inside an op when
// the session ends. Threads: any; takes no lock.
ActiveSession* active_session();
// Sets the running session; null ends it. Does not take ownership. Only the session and the handler
// of forked children call it.
void set_active_session(ActiveSession* session);

}  // namespace teraio::pytorch
