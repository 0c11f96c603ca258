// NCCL's calls that make and end communicators, and ask for what they are.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "testing/cuda_emulation/nccl/group.h"
#include "testing/cuda_emulation/nccl/handle.h"
#include "testing/cuda_emulation/nccl/last_error.h"

namespace teraio::testing::emulated_nccl {
namespace {

// Never destroyed: threads of communicators may outlive static objects.
struct Handles {
  std::mutex mutex;
  std::set<ncclComm_t> all;
};
Handles& handles() {
  static auto* instance = new Handles();
  return *instance;
}

ncclResult_t make(ncclComm_t* handle, const std::string& name, int rank, int count) {
  if (handle == nullptr || count < 1 || rank < 0 || rank >= count)
    return refuse(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(count) + " cannot be");
  auto* made = new ncclComm{std::make_shared<Communicator>(name, rank, count), {}};
  const Outcome outcome = Group::of_this_thread().connect(made->communicator);
  if (!outcome.is_ok()) {
    delete made;
    return give(outcome);
  }
  const std::lock_guard lock(handles().mutex);
  handles().all.insert(made);
  *handle = made;
  return ncclSuccess;
}

std::string name_of(const ncclUniqueId& id) {
  return {id.internal, strnlen(id.internal, NCCL_UNIQUE_ID_BYTES)};
}

ncclResult_t end(ncclComm_t handle, bool aborts) {
  {
    const std::lock_guard lock(handles().mutex);
    if (handles().all.erase(handle) == 0)
      return refuse(ncclInvalidArgument, "not a communicator, or one that has ended");
  }
  Communicator& communicator = *handle->communicator;
  if (aborts)
    communicator.abort();
  else
    (void)communicator.finalize();
  communicator.close();
  delete handle;
  return ncclSuccess;
}

// Where a rank goes in a split.
struct Place {
  int color;
  int key;
  int rank;
};

// The places of one color, in the order of the new ranks.
std::vector<Place> places_of(const std::vector<Bytes>& told, int color) {
  std::vector<Place> places;
  for (const Bytes& bytes : told) {
    Place place;
    std::memcpy(&place, bytes.data(), sizeof(place));
    if (place.color == color) places.push_back(place);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.key < b.key; });
  return places;
}

}  // namespace

ncclResult_t give(const Outcome& outcome) {
  if (!outcome.is_ok()) set_last_error(outcome.text);
  return outcome.result;
}

bool is_communicator(ncclComm_t handle) {
  const std::lock_guard lock(handles().mutex);
  return handles().all.count(handle) > 0;
}

}  // namespace teraio::testing::emulated_nccl

using namespace teraio::testing::emulated_nccl;

#define TERAIO_CHECK_COMMUNICATOR(handle) \
  if (!is_communicator(handle)) return refuse(ncclInvalidArgument, "not a communicator")

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  unsigned char random[16];
  if (::getrandom(random, sizeof(random), 0) != sizeof(random))
    return refuse(ncclSystemError, "getrandom failed");
  *id = {};
  for (size_t i = 0; i < sizeof(random); ++i)
    std::snprintf(id->internal + 2 * i, 3, "%02x", random[i]);
  return ncclSuccess;
}

// --- Making -------------------------------------------------------------------------------------

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int count, ncclUniqueId id, int rank) {
  return make(handle, name_of(id), rank, count);
}

// Calls return when they have ended, whether `blocking` asks for that or not.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  return make(handle, name_of(id), rank, count);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* handle, int count, int rank, int id_count,
                                      ncclUniqueId* ids, ncclConfig_t*) {
  if (id_count < 1) return refuse(ncclInvalidArgument, "no unique id");
  return make(handle, name_of(ids[0]), rank, count);
}

ncclResult_t ncclCommInitAll(ncclComm_t* made, int count, const int* devices) {
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) return result;
  int before = 0;
  cudaGetDevice(&before);
  Group& group = Group::of_this_thread();
  group.start();
  for (int rank = 0; rank < count; ++rank) {
    cudaSetDevice(devices == nullptr ? rank : devices[rank]);
    const ncclResult_t result = ncclCommInitRank(&made[rank], count, id, rank);
    if (result != ncclSuccess) group.refuse({result, last_error()});
  }
  cudaSetDevice(before);
  return give(group.end());
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  TERAIO_CHECK_COMMUNICATOR(handle);
  Communicator& parent = *handle->communicator;
  *made = nullptr;
  const Place own = {color, key, parent.rank()};
  const char* begin = reinterpret_cast<const char*>(&own);
  std::vector<Bytes> told;
  const Outcome outcome = parent.gather_on_host(Bytes(begin, begin + sizeof(own)), told);
  if (!outcome.is_ok()) return give(outcome);
  const std::string name = parent.next_name(color);
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const std::vector<Place> places = places_of(told, color);
  const auto rank = std::ranges::find(places, parent.rank(), &Place::rank) - places.begin();
  return make(made, name, static_cast<int>(rank), static_cast<int>(places.size()));
}

// --- Ending -------------------------------------------------------------------------------------

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  TERAIO_CHECK_COMMUNICATOR(handle);
  return give(handle->communicator->finalize());
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return handle == nullptr ? ncclSuccess : end(handle, /*aborts=*/false);
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return handle == nullptr ? ncclSuccess : end(handle, /*aborts=*/true);
}

// --- Asking -------------------------------------------------------------------------------------

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  TERAIO_CHECK_COMMUNICATOR(handle);
  *count = handle->communicator->count();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  TERAIO_CHECK_COMMUNICATOR(handle);
  *rank = handle->communicator->rank();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  TERAIO_CHECK_COMMUNICATOR(handle);
  *result = handle->communicator->error().result;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_error(); }

}  // extern "C"
