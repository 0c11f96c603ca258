#include "runtime/kept_plans.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "plan/validator.h"

namespace teraio::runtime {
namespace {

namespace fs = std::filesystem;

// The same measured anew differs by less.
constexpr double kRateRatioMax = 1.4;
constexpr double kByteRatioMax = 1.1;

constexpr auto kAgeMax = std::chrono::days(90);
constexpr std::string_view kSuffix = ".json.gz";

// What can differ a little from run to run.
struct Figure {
  int64_t value = 0;
  double ratio_max = 1;

  bool is_about(int64_t other) const {
    return value == other || static_cast<double>(std::max(value, other)) <=
                                 ratio_max * static_cast<double>(std::min(value, other));
  }
};

std::vector<Figure> figures_of(const KeptPlanUse& use) {
  std::vector<Figure> figures;
  for (const int64_t bytes :
       {use.limits.device_budget_bytes.value_or(-1), use.limits.host_limit_bytes.value_or(-1),
        use.limits.write_budget_bytes.value_or(-1)})
    figures.push_back({bytes, kByteRatioMax});
  for (const Rates& rates :
       {use.hardware.device_link, use.hardware.host.rates, ssd_rates(use.hardware)})
    for (const int64_t rate : {rates.read_bytes_per_second, rates.write_bytes_per_second})
      figures.push_back({rate, kRateRatioMax});
  return figures;
}

// The begin of the name of a plan's file; the figures follow.
std::string prefix_of(const KeptPlanUse& use) {
  std::string name = use.trace.name;
  std::ranges::replace(name, ' ', '-');
  const std::string rest = fmt::format("{} {} {}", TERAIO_VERSION, static_cast<int>(use.recompute),
                                       use.limits.smallest_tensor_bytes);
  return fmt::format("{}-{:016x}", name, XXH3_64bits(rest.data(), rest.size()));
}

// Whether these are the figures in the name of a file, which follow its prefix.
bool are_about(const std::vector<Figure>& figures, const std::string& in_name) {
  std::istringstream values(in_name);
  const auto is_next = [&](const Figure& figure) {
    int64_t value = 0;
    return values.get() == '_' && values >> value && figure.is_about(value);
  };
  return std::ranges::all_of(figures, is_next);
}

// A link, or a folder that others can write to, may lead to files of others.
bool is_private(const fs::path& folder) {
  struct stat status = {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

}  // namespace

fs::path KeptPlans::path_for(const KeptPlanUse& use) const {
  const std::string prefix = prefix_of(use);
  const std::vector<Figure> figures = figures_of(use);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && name.ends_with(kSuffix) &&
        are_about(figures, name.substr(prefix.size())))
      return entry.path();
  }
  std::string name = prefix;
  for (const Figure& figure : figures) name += fmt::format("_{}", figure.value);
  return folder_ / (name + std::string(kSuffix));
}

std::optional<plan::Plan> KeptPlans::find(const KeptPlanUse& use) const {
  if (!is_private(folder_)) return std::nullopt;
  const fs::path path = path_for(use);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::nullopt;
  Result<plan::Plan> plan = read(path, use);
  if (plan.ok()) {
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);
    return std::move(*plan);
  }
  spdlog::info("teraio: a plan of an earlier run is not used, and removed: {}",
               full_text(plan.status()));
  fs::remove(path, error);
  return std::nullopt;
}

Result<plan::Plan> KeptPlans::read(const fs::path& path, const KeptPlanUse& use) const {
  TERAIO_RETURN_IF_ERROR(check_entry(path));
  Result<plan::Plan> plan = plan::read_plan(path, trace::with_repeatable_ids(use.trace));
  if (!plan.ok()) return plan;
  const Status valid = validate_plan(*plan, use.trace, use.hardware, use.limits);
  if (!valid.ok()) return valid.with_context(path.string());
  return plan;
}

Status KeptPlans::check_entry(const fs::path& path) const {
  const auto refused = [&](std::string_view reason) {
    return Status(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path.string(), reason));
  };
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return refused("no file");
  if (status.st_uid != geteuid()) return refused("it belongs to another user");
  if (status.st_size > total_bytes_max_) return refused("too large");
  if (is_too_old(fs::directory_entry(path))) return refused("too old");
  return {};
}

bool KeptPlans::is_too_old(const fs::directory_entry& entry) const {
  std::error_code error;
  return entry.last_write_time(error) < fs::file_time_type::clock::now() - kAgeMax;
}

void KeptPlans::keep(const plan::Plan& plan, const KeptPlanUse& use) const {
  mkdir(folder_.c_str(), 0700);
  if (!is_private(folder_)) return;
  const fs::path path = path_for(use);
  std::error_code error;
  // Otherwise the file that a link points to would be replaced.
  if (fs::is_symlink(fs::symlink_status(path, error))) fs::remove(path, error);
  const Status written = write_plan(plan, trace::with_repeatable_ids(use.trace), path);
  if (!written.ok())
    spdlog::info("teraio: a plan is not kept for later runs: {}", full_text(written));
  else
    chmod(path.c_str(), 0600);
  trim();
}

void KeptPlans::trim() const {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::directory_entry>> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error))
    entries.emplace_back(entry.last_write_time(error), entry);
  std::ranges::sort(entries, std::greater(), [](const auto& entry) { return entry.first; });
  int64_t total_bytes = 0;
  for (const auto& [time, entry] : entries) {
    total_bytes += entry.is_regular_file(error) ? static_cast<int64_t>(entry.file_size(error)) : 0;
    if (is_too_old(entry) || total_bytes > total_bytes_max_) fs::remove(entry, error);
  }
}

}  // namespace teraio::runtime
