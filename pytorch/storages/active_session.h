// ActiveSession: what the hooks need from the running session. A process has at most one.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/runtime.h"
#include "storages/device_backend.h"
#include "stream_check.h"

namespace teraio::pytorch {

class OpOrigins;
class SteadyPrecision;
class TriedOps;

struct ActiveSession : std::enable_shared_from_this<ActiveSession> {
  std::shared_ptr<runtime::Runtime> runtime;
  DeviceBackend* backend = nullptr;
  // The size from which on storages are adopted that PyTorch allocated outside of the session.
  int64_t smallest_tensor_bytes = 0;
  int64_t list_op_slice_bytes = 0;              // list ops over more bytes than this run in slices
  TriedOps* tried_ops = nullptr;                // of the session; null: it replays no op
  OpOrigins* origins = nullptr;                 // of the session
  SteadyPrecision* steady_precision = nullptr;  // of the session
  StreamCheck stream_check;
  bool checks_schemas =
      false;                 // raise when an op changes an argument that its schema does not mark
  bool is_dry = false;       // tensors are fake: their storages have a size and no bytes
  bool has_streams = false;  // the value of DeviceBackend::has_streams()
  // True once no operator that started before the session can still be running, so that storages
  // may be adopted.
  std::atomic<bool> may_adopt = false;
};

// Returns the running session, or null when none runs. Threads: any; takes no lock. Another thread
// may end the session at any time, so whoever dereferences the pointer has a SessionUse.
ActiveSession* active_session();
// Sets the running session; null ends it. Does not take ownership. Only the session and the handler
// of forked children call it.
void set_active_session(ActiveSession* session);

struct SessionSlot;

// Keeps the running session's ActiveSession valid, also when the session ends meanwhile. The uses
// of a thread may be nested: an inner one finds the session of the outer one, or none after its
// end.
//
// One thread creates and destroys the object. It takes no lock, except for the first of a thread.
class SessionUse {
 public:
  SessionUse();
  ~SessionUse();
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;

  // Null when no session runs.
  ActiveSession* get() const { return session_; }
  // The same, for what outlives this object.
  std::shared_ptr<ActiveSession> share() const {
    return session_ == nullptr ? nullptr : session_->shared_from_this();
  }

 private:
  SessionSlot* slot_ = nullptr;  // null: nothing to end
  ActiveSession* session_ = nullptr;
};

// Takes a session that has ended, and drops it when no thread uses it. One that a thread still uses
// is looked at again when the next one ends. Threads: any, without the runtime's lock.
void retire(std::shared_ptr<ActiveSession> session);

}  // namespace teraio::pytorch
