#include "device/cuda/cuda_address_space.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/cuda/cuda_driver.h"

namespace teraio::device {
namespace {

// A point for every page that comes back would take longer than the pages.
constexpr size_t kPagesPerPoint = 32;

CUmemLocation location(int32_t ordinal) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = ordinal;
  return location;
}

Result<int> attribute(const CudaDriver& driver, CUdevice_attribute which, int32_t ordinal) {
  int value = 0;
  TERAIO_RETURN_IF_ERROR(cuda_driver_status(driver, driver.device_attribute(&value, which, ordinal),
                                            "ask for what the GPU can do"));
  return value;
}

// Drives and network cards may reach the memory where the GPU allows it.
CUmemAllocationProp properties(const CudaDriver& driver, int32_t ordinal) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location(ordinal);
  const Result<int> is_capable =
      attribute(driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, ordinal);
  properties.allocFlags.gpuDirectRDMACapable = is_capable.ok() && *is_capable != 0 ? 1 : 0;
  return properties;
}

// Logs what is not a lack of memory. Returns whether the call has succeeded.
bool is_done(const CudaDriver& driver, CUresult result, const char* what) {
  const Status status = cuda_driver_status(driver, result, what);
  if (!status.ok() && status.code() != ErrorCode::kOutOfMemory)
    spdlog::warn("teraio: {}", status.message());
  return status.ok();
}

}  // namespace

Result<std::unique_ptr<CudaAddressSpace>> CudaAddressSpace::reserve(
    CudaAddressSpaceOptions options) {
  const Result<const CudaDriver*> driver = cuda_driver();
  if (!driver.ok()) return driver.status();
  const CudaDriver& calls = **driver;
  const Result<int> is_supported =
      attribute(calls, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, options.ordinal);
  if (!is_supported.ok()) return is_supported.status();
  if (*is_supported == 0)
    return Status(ErrorCode::kUnsupported,
                  fmt::format("cuda:{}: expected a GPU whose driver manages virtual memory "
                              "(cuMemMap), which virtual GPUs may lack",
                              options.ordinal));
  const CUmemAllocationProp wanted = properties(calls, options.ordinal);
  size_t granularity_bytes = 0;
  TERAIO_RETURN_IF_ERROR(cuda_driver_status(
      calls, calls.granularity(&granularity_bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "ask how memory is mapped"));
  options.page_bytes = align_up(options.page_bytes, static_cast<int64_t>(granularity_bytes));
  Status refused(ErrorCode::kUnsupported, "cuda: no addresses are wanted");
  for (int64_t size_bytes = options.size_bytes; size_bytes >= options.least_bytes;
       size_bytes /= 2) {
    const int64_t whole_bytes = align_up(size_bytes, options.page_bytes);
    CUdeviceptr begin = 0;
    refused =
        cuda_driver_status(calls,
                           calls.reserve_addresses(&begin, static_cast<size_t>(whole_bytes),
                                                   static_cast<size_t>(options.page_bytes), 0, 0),
                           "reserve addresses");
    if (!refused.ok()) continue;
    return std::unique_ptr<CudaAddressSpace>(new CudaAddressSpace(
        calls, std::move(options), reinterpret_cast<std::byte*>(begin), whole_bytes));
  }
  return Status(ErrorCode::kUnsupported, refused.message());
}

CudaAddressSpace::CudaAddressSpace(const CudaDriver& driver, CudaAddressSpaceOptions options,
                                   std::byte* base, int64_t size_bytes)
    : AddressSpace(base, size_bytes, options.page_bytes),
      driver_(driver),
      options_(std::move(options)),
      properties_(properties(driver, options_.ordinal)),
      mapped_(static_cast<size_t>(size_bytes / options_.page_bytes), kNone) {}

// Ignores errors: at process exit the driver may already be unloaded.
CudaAddressSpace::~CudaAddressSpace() {
  for (int64_t offset = 0; offset < size_bytes(); offset += page_bytes()) {
    if (mapped_at(offset) == kNone) continue;
    const bool is_here = is_committed(offset);
    if (is_here && is_tracking_) segments_.remove(at(offset));
    driver_.unmap(pointer(offset), static_cast<size_t>(page_bytes()));
    if (is_here) driver_.release(page_at(offset).handle);
  }
  driver_.free_addresses(pointer(0), static_cast<size_t>(size_bytes()));
}

CUdeviceptr CudaAddressSpace::pointer(int64_t offset_bytes) const {
  return reinterpret_cast<CUdeviceptr>(at(offset_bytes));
}

bool CudaAddressSpace::commit(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    if (!clear(offset)) return false;
  if (!create(range)) return false;
  if (make_accessible(std::array{range})) {
    track(range);
    return true;
  }
  unmap(range);
  remove(range);
  return false;
}

// After a failure there are no pages in the range.
bool CudaAddressSpace::create(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes()) {
    if (create_page(offset)) continue;
    const ByteRange created{range.begin_bytes, offset - range.begin_bytes};
    if (created.size_bytes > 0) unmap(created);
    remove(created);
    return false;
  }
  return true;
}

bool CudaAddressSpace::create_page(int64_t offset_bytes) {
  if (unused_pages_.empty()) {
    unused_pages_.push_back(static_cast<PageIndex>(pages_.size()));
    pages_.emplace_back();
  }
  const PageIndex index = unused_pages_.back();
  Page& page = pages_[static_cast<size_t>(index)];
  page = {.offset_bytes = offset_bytes, .former_offsets = {}};
  const CUresult result =
      driver_.create(&page.handle, static_cast<size_t>(page_bytes()), &properties_, 0);
  if (!is_done(driver_, result, "allocate memory")) return false;
  if (!is_done(driver_, map(offset_bytes, index), "map memory")) {
    driver_.release(page.handle);
    return false;
  }
  unused_pages_.pop_back();
  return true;
}

CUresult CudaAddressSpace::map(int64_t offset_bytes, PageIndex page) {
  const CUmemGenericAllocationHandle handle = pages_[static_cast<size_t>(page)].handle;
  const CUresult result =
      driver_.map(pointer(offset_bytes), static_cast<size_t>(page_bytes()), 0, handle, 0);
  if (result != CUDA_SUCCESS) return result;
  mapped_at(offset_bytes) = page;
  return result;
}

// While bytes go to the host, the driver takes about 1 ms to make a page accessible
// (docs/decisions/002-pages-of-a-gpu.md). New copies to the host are therefore held back, so that
// several pages wait for the copies under way and not each for those that follow.
bool CudaAddressSpace::make_accessible(std::span<const ByteRange> ranges) {
  const bool is_one_page =
      ranges.empty() || (ranges.size() == 1 && ranges.front().size_bytes == page_bytes());
  PauseOfCopiesToHost pause;
  if (!is_one_page) pause = options_.pause_copies_to_host();
  CUmemAccessDesc access = {};
  access.location = location(options_.ordinal);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return std::ranges::all_of(ranges, [&](ByteRange range) {
    const auto size = static_cast<size_t>(range.size_bytes);
    return is_done(driver_, driver_.set_access(pointer(range.begin_bytes), size, &access, 1),
                   "make memory accessible");
  });
}

bool CudaAddressSpace::unmap(ByteRange range) {
  const auto size = static_cast<size_t>(range.size_bytes);
  return is_done(driver_, driver_.unmap(pointer(range.begin_bytes), size), "unmap memory");
}

// Of the pages in `range`, where they were.
bool CudaAddressSpace::unmap_former(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes()) {
    Page& page = page_at(offset);
    while (!page.former_offsets.empty()) {
      const int64_t former_bytes = page.former_offsets.back();
      if (!unmap({former_bytes, page_bytes()})) return false;
      mapped_at(former_bytes) = kNone;
      page.former_offsets.pop_back();
    }
  }
  return true;
}

// Of unmapped pages.
void CudaAddressSpace::remove(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes()) {
    driver_.release(page_at(offset).handle);
    unused_pages_.push_back(std::exchange(mapped_at(offset), kNone));
  }
}

// The pages return when nothing maps them any more.
bool CudaAddressSpace::decommit(ByteRange range) {
  const Result<Event> last = options_.compute.record();
  if (!last.ok() || !options_.compute.wait(*last).ok()) return false;
  departures_.clear();
  forget(range);
  if (unmap_former(range) && unmap(range)) {
    remove(range);
    return true;
  }
  track(range);
  return false;
}

int64_t CudaAddressSpace::move(ByteRange from, int64_t to_bytes) {
  std::vector<PageMove> moves;
  for (int64_t offset = 0; offset < from.size_bytes; offset += page_bytes())
    moves.push_back({from.begin_bytes + offset, to_bytes + offset});
  const std::span<const PageMove> all = moves;
  size_t count = map_again(all);
  while (count < all.size() && replace_page(all[count])) {
    ++count;
    count += map_again(all.subspan(count));
  }
  return static_cast<int64_t>(count) * page_bytes();
}

// Now and then, the driver does not map one page any more, at any address, while it maps all others
// (CUDA_ERROR_UNKNOWN, seen with driver 580 on an H200). Both pages exist for a moment: a page that
// returns first might not be there to be had again.
bool CudaAddressSpace::replace_page(const PageMove& move) {
  const ByteRange from{move.from_bytes, page_bytes()};
  const ByteRange to{move.to_bytes, page_bytes()};
  if (!commit(to)) return false;
  if (decommit(from)) {
    spdlog::debug("teraio: cuda: a page that the driver does not map again has been replaced");
    return true;
  }
  decommit(to);
  return false;
}

// Returns how many pages have moved, up to the first that the driver refuses to map.
size_t CudaAddressSpace::map_again(std::span<const PageMove> moves) {
  std::vector<ByteRange> mapped;  // now
  size_t count = 0;
  for (; count < moves.size(); ++count) {
    const int64_t to_bytes = moves[count].to_bytes;
    const PageIndex page = mapped_at(moves[count].from_bytes);
    if (mapped_at(to_bytes) == page) continue;
    if (!clear(to_bytes) || map(to_bytes, page) != CUDA_SUCCESS) break;
    if (!mapped.empty() && mapped.back().end_bytes() == to_bytes) {
      mapped.back().size_bytes += page_bytes();
    } else {
      mapped.push_back({to_bytes, page_bytes()});
    }
  }
  if (!make_accessible(mapped)) {
    for (const ByteRange range : mapped) {
      unmap(range);
      for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
        mapped_at(offset) = kNone;
    }
    return 0;
  }
  for (const PageMove& move : moves.first(count)) relabel(move);
  note_departures(moves.first(count));
  if (!mapped.empty()) end_departure();
  return count;
}

void CudaAddressSpace::note_departures(std::span<const PageMove> moves) {
  if (moves.empty()) return;
  if (departures_.empty() || departures_.back().passed) departures_.emplace_back();
  Departure& departure = departures_.back();
  departure.moves.insert(departure.moves.end(), moves.begin(), moves.end());
  if (departure.moves.size() >= kPagesPerPoint) end_departure();
}

// No more pages join the last one. If the point cannot be recorded, it stays as it is.
void CudaAddressSpace::end_departure() {
  forget_passed();
  if (departures_.empty() || departures_.back().passed) return;
  if (const Result<Event> point = options_.compute.record(); point.ok())
    departures_.back().passed = *point;
}

void CudaAddressSpace::relabel(const PageMove& move) {
  Page& page = page_at(move.from_bytes);
  page.offset_bytes = move.to_bytes;
  std::erase(page.former_offsets, move.to_bytes);
  page.former_offsets.push_back(move.from_bytes);
  forget({move.from_bytes, page_bytes()});
  track({move.to_bytes, page_bytes()});
}

bool CudaAddressSpace::overlaps(const PageMove& move, int64_t PageMove::*side,
                                ByteRange range) const {
  const int64_t begin_bytes = move.*side;
  return begin_bytes < range.end_bytes() && range.begin_bytes < begin_bytes + page_bytes();
}

bool CudaAddressSpace::has_passed(const Departure& departure) const {
  return departure.passed && options_.compute.has_passed(*departure.passed);
}

bool CudaAddressSpace::may_be_in_use(ByteRange range) const {
  return std::ranges::any_of(departures_, [&](const Departure& departure) {
    return std::ranges::any_of(
               departure.moves,
               [&](const PageMove& move) { return overlaps(move, &PageMove::to_bytes, range); }) &&
           !has_passed(departure);
  });
}

void CudaAddressSpace::forget_passed() {
  while (!departures_.empty() && has_passed(departures_.front())) departures_.pop_front();
}

bool CudaAddressSpace::wait_for(Departure& departure) {
  if (has_passed(departure)) return true;
  if (!departure.passed) end_departure();
  return departure.passed && options_.compute.wait(*departure.passed).ok();
}

// Unmaps the page that is still mapped at an uncommitted address.
bool CudaAddressSpace::clear(int64_t offset_bytes) {
  const PageIndex page = mapped_at(offset_bytes);
  if (page == kNone) return true;
  const ByteRange here{offset_bytes, page_bytes()};
  const auto last = std::find_if(departures_.rbegin(), departures_.rend(), [&](const Departure& d) {
    return std::ranges::any_of(
        d.moves, [&](const PageMove& move) { return overlaps(move, &PageMove::from_bytes, here); });
  });
  if (last != departures_.rend()) {
    if (!wait_for(*last)) return false;
    departures_.erase(departures_.begin(), last.base());
  }
  if (!unmap(here)) return false;
  std::erase(pages_[static_cast<size_t>(page)].former_offsets, offset_bytes);
  mapped_at(offset_bytes) = kNone;
  return true;
}

// --- Segments -----------------------------------------------------------------------------------

MemorySegments& CudaAddressSpace::segments() {
  if (std::exchange(is_tracking_, true)) return segments_;
  for (int64_t offset = 0; offset < size_bytes(); offset += page_bytes())
    if (is_committed(offset)) track({offset, page_bytes()});
  return segments_;
}

void CudaAddressSpace::track(ByteRange range) {
  if (!is_tracking_) return;
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    segments_.add({at(offset), page_bytes()});
}

void CudaAddressSpace::forget(ByteRange range) {
  if (!is_tracking_) return;
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    segments_.remove(at(offset));
}

}  // namespace teraio::device
