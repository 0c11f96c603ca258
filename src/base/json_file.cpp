#include "base/json_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>

#include "base/units.h"

namespace teraio {
namespace {

using nlohmann::json;

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzReader = std::unique_ptr<gzFile_s, CloseGz>;

// The file as it is now: "file: /data/plan.json, 312 bytes".
std::string file_detail(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  const uintmax_t size_bytes = std::filesystem::file_size(path, error);
  return fmt::format("file: {}, {}", whole.string(),
                     error ? error.message() : fmt::format("{} bytes", size_bytes));
}

Status system_failure(const std::filesystem::path& path, std::string_view what, int error) {
  const ErrorCode code = error == ENOENT   ? ErrorCode::kNotFound
                         : error == ENOSPC ? ErrorCode::kOutOfSpace
                                           : ErrorCode::kIoError;
  return Status(code, fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(error)))
      .with_details({"error: " + errno_name(error), file_detail(path)});
}

// Text of a file as a part of one line: other bytes than printable ASCII become "?".
std::string shortened(std::string_view text) {
  constexpr size_t kLengthMax = 300;
  std::string part(text.substr(0, kLengthMax));
  std::replace_if(
      part.begin(), part.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return text.size() > kLengthMax ? part + " ..." : part;
}

std::string described(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60);
}

// The value as an integer; nothing where it is none or does not fit int64_t. Numbers with a point
// or an exponent, such as 25e9, are doubles, which hold integers to 2^53 exactly.
std::optional<int64_t> to_integer(const json& value) {
  constexpr double kExactMax = 1LL << 53;
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::trunc(number) != number || std::abs(number) > kExactMax) return {};
  } else if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) return {};
  } else if (!value.is_number_integer()) {
    return {};
  }
  return value.get<int64_t>();
}

// The line of a text that contains a byte: "line 2: {"tensor": 7,". Bytes count from 1.
std::string line_detail(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto number = std::count(before.begin(), before.end(), '\n') + 1;
  return fmt::format("line {}: {}", number,
                     shortened(text.substr(start, text.find('\n', start) - start)));
}

bool ends_in_gz(const std::filesystem::path& path) { return path.extension() == ".gz"; }

// Writes the text and closes `descriptor`, whose ownership it takes.
Status write_all(int descriptor, const std::filesystem::path& path, std::string_view text) {
  gzFile file = gzdopen(descriptor, ends_in_gz(path) ? "wb6" : "wbT");
  if (file == nullptr) {
    close(descriptor);
    return Status(ErrorCode::kInternal, fmt::format("{}: zlib has no memory", path.string()));
  }
  constexpr size_t kChunkBytes = size_t{1} << 26;
  errno = 0;
  bool ok = true;
  while (ok && !text.empty()) {
    const std::string_view chunk = text.substr(0, kChunkBytes);
    ok = gzwrite(file, chunk.data(), static_cast<unsigned>(chunk.size())) ==
         static_cast<int>(chunk.size());
    text.remove_prefix(chunk.size());
  }
  const bool closed = gzclose(file) == Z_OK;
  if (ok && closed) return Status();
  return system_failure(path, "write", errno != 0 ? errno : EIO);
}

// Compares the bytes that were read so far with the limits.
Status check_size(gzFile file, const std::filesystem::path& path, int64_t size_bytes) {
  if (size_bytes > kTextBytesMax)
    return Status(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: expected at most {} of text", path.string(), format_size(kTextBytesMax)));
  if (size_bytes <= kInflatedBytesFree || gzdirect(file) != 0) return {};
  const int64_t compressed_bytes = gzoffset(file);
  if (compressed_bytes < 0) return {};  // a pipe does not tell
  if (size_bytes <= kInflatedBytesFree + kInflationMax * compressed_bytes) return {};
  return Status(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} of compressed data are more than {} of text: expected at most "
                            "{} times as much; decompress the file first if it is right",
                            path.string(), format_size(compressed_bytes), format_size(size_bytes),
                            kInflationMax));
}

Result<std::string> read_text(const std::filesystem::path& path) {
  errno = 0;
  GzReader file(gzopen(path.c_str(), "rb"));
  if (!file) return system_failure(path, "open", errno != 0 ? errno : EIO);
  std::string text;
  size_t used = 0;
  for (;;) {
    if (text.size() - used < 1 << 16) text.resize(std::max<size_t>(1 << 18, text.size() * 2));
    const int got = gzread(file.get(), text.data() + used,
                           static_cast<unsigned>(std::min(text.size() - used, size_t{1} << 30)));
    if (got <= 0) break;
    used += static_cast<size_t>(got);
    TERAIO_RETURN_IF_ERROR(check_size(file.get(), path, static_cast<int64_t>(used)));
  }
  int error = Z_OK;
  const char* message = gzerror(file.get(), &error);
  if (error == Z_ERRNO) return system_failure(path, "read", errno != 0 ? errno : EIO);
  if (error != Z_OK)
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: expected whole gzip data: {}", path.string(), message));
  text.resize(used);
  return text;
}

// Follows symbolic links, so that write_text_file() replaces the target and keeps the link. The
// target need not exist.
std::filesystem::path without_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // the limit of the kernel
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, error); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  return path;
}

// Removes the file with this name, unless it has been renamed.
class TemporaryFile {
 public:
  // Creates a file beside `target`, with the mode of a new file. Its name cannot be predicted, and
  // an existing file or link with that name is not used.
  explicit TemporaryFile(const std::string& target) {
    std::random_device random;
    for (int i = 0; i < 100 && fd_ < 0; ++i) {
      name_ = fmt::format("{}.partial-{:08x}{:08x}", target, random(), random());
      fd_ = open(name_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
      if (fd_ < 0 && errno != EEXIST) return;
    }
  }
  ~TemporaryFile() {
    if (fd_ < 0) return;
    if (!is_renamed_) unlink(name_.c_str());
    close(fd_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  bool rename_to(const std::string& target) {
    is_renamed_ = rename(name_.c_str(), target.c_str()) == 0;
    return is_renamed_;
  }

 private:
  std::string name_;
  int fd_ = -1;
  bool is_renamed_ = false;
};

// Gives the file the mode and, where that is allowed, the owner of the file that it will replace.
void keep_mode(int fd, const std::string& target) {
  struct stat old = {};
  if (stat(target.c_str(), &old) != 0 || !S_ISREG(old.st_mode)) return;
  if (fchown(fd, old.st_uid, old.st_gid) != 0) errno = 0;
  fchmod(fd, old.st_mode & 0777);
}

// Makes the file's name last. File systems that cannot do that refuse it, which is no failure: the
// file is there.
void sync_directory(const std::filesystem::path& directory) {
  const int fd =
      open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

Status replace_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path target = without_links(path);
  TemporaryFile file(target.string());
  if (file.fd() < 0) return system_failure(path, "create this file in its folder", errno);
  keep_mode(file.fd(), target.string());
  // zlib closes the descriptor that it gets.
  const int writer = fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);
  if (writer < 0) return system_failure(path, "write", errno);
  TERAIO_RETURN_IF_ERROR(write_all(writer, path, text));
  // Errors that the file system reports late, such as those of NFS, come now.
  if (fsync(file.fd()) != 0) return system_failure(path, "write", errno);
  if (!file.rename_to(target.string())) return system_failure(path, "replace", errno);
  sync_directory(target.parent_path());
  return {};
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path) {
  return within_memory(path, [&] { return read_text(path); });
}

Status write_text_file(const std::filesystem::path& path, std::string_view text) {
  std::error_code error;
  if (!std::filesystem::is_other(path, error)) return replace_file(path, text);
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return system_failure(path, "open", errno);
  return write_all(descriptor, path, text);
}

std::string to_json_text(const nlohmann::ordered_json& value) {
  const auto dump = [](const nlohmann::ordered_json& part) {
    return part.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string text = "{";
  const char* separator = "\n ";
  for (const auto& [key, part] : value.items()) {
    text += fmt::format("{}{}: ", separator, dump(key));
    separator = ",\n ";
    if (!part.is_array()) {
      text += dump(part);
      continue;
    }
    text += "[";
    for (size_t i = 0; i < part.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + dump(part[i]);
    text += part.empty() ? "]" : "\n ]";
  }
  return text + "\n}\n";
}

JsonNode JsonNode::find(const char* key) const {
  const json* child = nullptr;
  if (value_ != nullptr && value_->is_object()) {
    const auto found = value_->find(key);
    if (found != value_->end()) child = &*found;
  }
  return JsonNode(document_, child, this, key, 0);
}

JsonNode JsonNode::operator[](const char* key) const {
  JsonNode child = find(key);
  if (child.exists() || value_ == nullptr) return child;
  if (value_->is_object())
    child.fail("expected this field, found none");
  else
    fail_expected("an object");
  return child;
}

size_t JsonNode::size() const {
  if (value_ == nullptr || !document_->status_.ok()) return 0;
  if (value_->is_array()) return value_->size();
  fail_expected("an array");
  return 0;
}

JsonNode JsonNode::element(size_t index) const {
  return JsonNode(document_, &(*value_)[index], this, nullptr, index);
}

int64_t JsonNode::integer_from(int64_t smallest, std::string_view expected) const {
  if (value_ == nullptr) return smallest;
  const std::optional<int64_t> number = to_integer(*value_);
  if (number.has_value() && *number >= smallest) return *number;
  fail_expected(expected);
  return smallest;
}

int64_t JsonNode::non_negative_integer() const {
  return integer_from(0, "an integer that is not negative");
}

int64_t JsonNode::positive_integer() const { return integer_from(1, "a positive integer"); }

double JsonNode::number() const {
  if (value_ == nullptr) return 0;
  if (value_->is_number() && std::isfinite(value_->get<double>())) return value_->get<double>();
  fail_expected("a number");
  return 0;
}

bool JsonNode::boolean() const {
  if (value_ == nullptr) return false;
  if (value_->is_boolean()) return value_->get<bool>();
  fail_expected("true or false");
  return false;
}

std::string JsonNode::text() const {
  if (value_ == nullptr) return "";
  if (value_->is_string()) return value_->get<std::string>();
  fail_expected("a string");
  return "";
}

std::string JsonNode::path() const {
  if (parent_ == nullptr) return "";
  const std::string before = parent_->path();
  if (key_ == nullptr) return fmt::format("{}[{}]", before, index_);
  return before.empty() ? key_ : fmt::format("{}.{}", before, key_);
}

// The object with the field, or the element: "entry: migrations[3] is {"tensor":7}". "" for a field
// of the root, which is the whole file.
std::string JsonNode::entry() const {
  const bool is_field =
      parent_ != nullptr && parent_->value_ != nullptr && parent_->value_->is_object();
  const JsonNode& whole = is_field ? *parent_ : *this;
  const std::string where = whole.path();
  if (where.empty() || whole.value_ == nullptr) return "";
  return fmt::format("entry: {} is {}", where,
                     shortened(whole.value_->dump(-1, ' ', true, json::error_handler_t::replace)));
}

void JsonNode::fail_expected(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected,
                   value_ == nullptr ? "nothing" : described(*value_)));
}

void JsonNode::fail(std::string_view problem) const {
  if (!document_->status_.ok()) return;
  const std::string where = path(), entry = this->entry();
  document_->fail(where.empty() ? std::string(problem) : fmt::format("{}: {}", where, problem),
                  entry.empty() ? std::vector<std::string>() : std::vector{entry});
}

JsonDocument::JsonDocument(const std::filesystem::path& path,
                           std::initializer_list<std::string_view> formats)
    : file_(path.string()), root_(this, nullptr, nullptr, nullptr, 0) {
  const Status read = within_memory(path, [&] { return this->read(formats); });
  if (status_.ok()) status_ = read;
}

Status JsonDocument::read(std::initializer_list<std::string_view> formats) {
  const Result<std::string> text = read_text_file(file_);
  if (text.ok()) parse(*text, formats);
  return text.status();
}

void JsonDocument::parse(const std::string& text, std::initializer_list<std::string_view> formats) {
  try {
    value_ = json::parse(text);
  } catch (const json::parse_error& error) {      // only the exception has the position
    const std::string_view found = error.what();  // "[json.exception.NAME] TEXT"
    fail(fmt::format("expected JSON: {}", found.substr(found.find("] ") + 2)),
         {line_detail(text, error.byte)});
    return;
  } catch (const json::exception& error) {  // such as a number that is too large
    const std::string_view found = error.what();
    fail(fmt::format("expected JSON: {}", found.substr(found.find("] ") + 2)), {});
    return;
  }
  root_.value_ = &value_;
  check_format(formats);
}

void JsonDocument::check_format(std::initializer_list<std::string_view> formats) {
  const JsonNode field = root_["format"];
  const std::string found = field.text();
  if (!status_.ok()) return;
  const auto* known = std::find(formats.begin(), formats.end(), found);
  if (known != formats.end()) {
    format_ = *known;
    return;
  }
  field.fail(fmt::format("expected \"{}\", found {}", fmt::join(formats, "\" or \""),
                         described(*field.value_)));
}

void JsonDocument::fail(std::string_view problem, std::vector<std::string> details) {
  details.push_back(file_detail(file_));
  status_ = Status(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file_, problem))
                .with_details(std::move(details));
}

}  // namespace teraio
