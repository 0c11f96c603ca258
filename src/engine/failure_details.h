// What a report of a failure needs to know of the engine: details of its Status.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "engine/live_tensor.h"

namespace teraio::engine {

std::string_view to_string(Residency residency);

// "tensor 7: 4194304 bytes, offloaded, copy on ssd at 8192, last used by op 41 of the run".
std::string tensor_detail(const LiveTensor& tensor);

// Of tensors with known addresses, and of those that the program pins.
int64_t bytes_that_the_program_holds(const std::vector<LiveTensor*>& live);

// Why tensors stay that are on the device when no more can leave, by the largest reasons:
// " (8.39 MB are operands of running ops, 1.20 MB are small storages)". Empty: none.
std::string groups_that_stay(const std::vector<LiveTensor*>& live, int64_t smallest_tensor_bytes);

// The use of the device memory now, a line for the tensors on tiers, and one for each of the
// largest tensors that are on the device and cannot leave.
std::vector<std::string> memory_details(const device::MemoryUsage& usage,
                                        const std::vector<LiveTensor*>& live,
                                        const std::function<bool(const LiveTensor&)>& can_leave);

}  // namespace teraio::engine
