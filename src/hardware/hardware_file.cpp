#include <fmt/format.h>

#include "base/json_file.h"
#include "hardware/hardware.h"

namespace teraio::hardware {
namespace {

constexpr std::string_view kFormat = "teraio-hardware/1";
// The capacities of 100 drives of this size add up to less than 2^63.
constexpr int64_t kLargest = int64_t{1} << 56;
constexpr size_t kMostDrives = 100;

Rates read_rates(const JsonNode& node) {
  return {node["read_bytes_per_second"].non_negative_integer(),
          node["write_bytes_per_second"].non_negative_integer()};
}

Drive read_drive(const JsonNode& node) {
  Drive drive;
  drive.name = node["name"].text();
  drive.capacity_bytes = node["capacity_bytes"].non_negative_integer();
  drive.rates = read_rates(node);
  drive.duplex = node["duplex"].number();
  if (const JsonNode rated = node.find("rated_bytes_written"); rated.exists())
    drive.rated_bytes_written = rated.non_negative_integer();
  return drive;
}

Hardware read_fields(const JsonNode& root) {
  Hardware hardware;
  hardware.name = root["name"].text();
  hardware.device_memory_bytes = root["device_memory_bytes"].non_negative_integer();
  hardware.device_link = read_rates(root["device_link"]);
  const JsonNode host = root["host"];
  hardware.host.capacity_bytes = host["capacity_bytes"].non_negative_integer();
  hardware.host.rates = read_rates(host);
  const JsonNode drives = root["drives"];
  const size_t count = drives.size();
  for (size_t i = 0; i < count; ++i) hardware.drives.push_back(read_drive(drives.element(i)));
  hardware.request_latency_ns = root["request_latency_ns"].non_negative_integer();
  return hardware;
}

Status broken(std::string_view field, std::string_view expected) {
  return Status(ErrorCode::kInvalidArgument, fmt::format("{}: expected {}", field, expected));
}

Status check_amount(std::string_view field, int64_t amount) {
  if (amount >= 0 && amount <= kLargest) return Status();
  return broken(field, fmt::format("0 to 2^56, found {}", amount));
}

Status check_rates(std::string_view field, const Rates& rates) {
  for (int64_t rate : {rates.read_bytes_per_second, rates.write_bytes_per_second}) {
    if (rate < 1 || rate > kLargest)
      return broken(field, fmt::format("rates of 1 to 2^56 bytes per second, found {}", rate));
  }
  return Status();
}

Status check_drive(size_t index, const Drive& drive) {
  const std::string field = fmt::format("drives[{}]", index);
  TERAIO_RETURN_IF_ERROR(check_amount(field + ".capacity_bytes", drive.capacity_bytes));
  TERAIO_RETURN_IF_ERROR(check_rates(field, drive.rates));
  if (!(drive.duplex >= 1.0 && drive.duplex <= 2.0))
    return broken(field + ".duplex", fmt::format("1 to 2, found {}", drive.duplex));
  return check_amount(field + ".rated_bytes_written", drive.rated_bytes_written.value_or(0));
}

nlohmann::ordered_json to_json(const Rates& rates) {
  return {{"read_bytes_per_second", rates.read_bytes_per_second},
          {"write_bytes_per_second", rates.write_bytes_per_second}};
}

nlohmann::ordered_json to_json(const Drive& drive) {
  nlohmann::ordered_json json = {{"name", drive.name}, {"capacity_bytes", drive.capacity_bytes}};
  json.update(to_json(drive.rates));
  json["duplex"] = drive.duplex;
  if (drive.rated_bytes_written) json["rated_bytes_written"] = *drive.rated_bytes_written;
  return json;
}

nlohmann::ordered_json to_json(const HostTier& host) {
  nlohmann::ordered_json json = {{"capacity_bytes", host.capacity_bytes}};
  json.update(to_json(host.rates));
  return json;
}

}  // namespace

Status validate(const Hardware& hardware) {
  TERAIO_RETURN_IF_ERROR(check_amount("device_memory_bytes", hardware.device_memory_bytes));
  TERAIO_RETURN_IF_ERROR(check_rates("device_link", hardware.device_link));
  TERAIO_RETURN_IF_ERROR(check_amount("host.capacity_bytes", hardware.host.capacity_bytes));
  if (hardware.host.capacity_bytes > 0) {
    TERAIO_RETURN_IF_ERROR(check_rates("host", hardware.host.rates));
  }
  if (hardware.drives.size() > kMostDrives) return broken("drives", "at most 100 drives");
  for (size_t i = 0; i < hardware.drives.size(); ++i) {
    TERAIO_RETURN_IF_ERROR(check_drive(i, hardware.drives[i]));
  }
  return check_amount("request_latency_ns", hardware.request_latency_ns);
}

Result<Hardware> read_hardware(const std::filesystem::path& path) {
  JsonDocument document(path, kFormat);
  Hardware hardware = read_fields(document.root());
  TERAIO_RETURN_IF_ERROR(document.status());
  TERAIO_RETURN_IF_ERROR(validate(hardware).with_context(path.string()));
  return hardware;
}

Status write_hardware(const Hardware& hardware, const std::filesystem::path& path) {
  TERAIO_RETURN_IF_ERROR(validate(hardware).with_context(hardware.name));
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"name", hardware.name},
                                 {"device_memory_bytes", hardware.device_memory_bytes},
                                 {"device_link", to_json(hardware.device_link)},
                                 {"host", to_json(hardware.host)}};
  auto& drives = json["drives"] = nlohmann::ordered_json::array();
  for (const Drive& drive : hardware.drives) drives.push_back(to_json(drive));
  json["request_latency_ns"] = hardware.request_latency_ns;
  return write_text_file(path, to_json_text(json));
}

}  // namespace teraio::hardware
