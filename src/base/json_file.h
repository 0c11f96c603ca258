// JSON files, plain or gzip. They are read as a whole and replaced atomically.
//
// A reader needs no error handling between the fields. The document keeps the first failure, which
// names the file, the field and what was expected. Later accesses return neutral values (0 or 1,
// "", false), and status() returns the failure at the end.
//
//   JsonDocument document(path, "teraio-hardware/1");
//   hardware.name = document.root()["name"].text();
//   TERAIO_RETURN_IF_ERROR(document.status());   // "h.json: name: expected a string, found 7"
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/status.h"

namespace teraio {

class JsonDocument;

// A value in a document, and its path. It is cheap to copy. It refers to the node that it was
// reached from, so the parent must stay in a named variable while its children are used. Threads:
// those of the document.
class JsonNode {
 public:
  // Returns a field of an object. When the field is missing, operator[] records a failure and
  // find() does not: exists() tells whether find() found it.
  JsonNode operator[](const char* key) const;
  JsonNode find(const char* key) const;
  // The number of elements. Records a failure and returns 0 when the value is not an array; returns
  // 0 after any failure.
  size_t size() const;
  // Requires index < size().
  JsonNode element(size_t index) const;

  bool exists() const { return value_ != nullptr; }
  // Returns the value. Records a failure when it has another type or is out of range.
  int64_t non_negative_integer() const;
  int64_t positive_integer() const;
  double number() const;
  bool boolean() const;
  std::string text() const;

  // Records "<file>: <path>: <problem>" as the failure of the document, unless it has one already.
  // Its details are the entry that contains the value, and the file.
  void fail(std::string_view problem) const;

 private:
  friend class JsonDocument;
  JsonNode(JsonDocument* document, const nlohmann::json* value, const JsonNode* parent,
           const char* key, size_t index)
      : document_(document), value_(value), parent_(parent), key_(key), index_(index) {}

  std::string path() const;
  std::string entry() const;
  void fail_expected(std::string_view expected) const;
  int64_t integer_from(int64_t smallest, std::string_view expected) const;

  JsonDocument* document_;
  const nlohmann::json* value_;  // null: it does not exist
  const JsonNode* parent_;       // null: the root
  const char* key_;              // null: an element of an array
  size_t index_;
};

// One file, which the constructor reads. The document must outlive its nodes. One thread at a time
// may use a document and its nodes.
class JsonDocument {
 public:
  // status() fails when the file cannot be read, does not fit into the memory, is not JSON, or its
  // field "format" is none of `formats`. The views must outlive the document.
  JsonDocument(const std::filesystem::path& path, std::initializer_list<std::string_view> formats);
  JsonDocument(const std::filesystem::path& path, std::string_view format)
      : JsonDocument(path, {format}) {}
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const JsonNode& root() const { return root_; }
  const Status& status() const { return status_; }
  // The format that the file names; "" after a failure.
  std::string_view format() const { return format_; }

 private:
  friend class JsonNode;
  void fail(std::string_view problem, std::vector<std::string> details);
  Status read(std::initializer_list<std::string_view> formats);
  void parse(const std::string& text, std::initializer_list<std::string_view> formats);
  void check_format(std::initializer_list<std::string_view> formats);

  std::string file_;
  std::string_view format_;
  Status status_;
  nlohmann::json value_;
  JsonNode root_;
};

// The largest text that is read. A JSON value takes up to about 20 times its text in memory. An op
// of a trace takes about 100 bytes, so this is a trace of ten million ops.
inline constexpr int64_t kTextBytesMax = int64_t{1} << 30;
// Compressed text may be as large as this, and larger if it is at most kInflationMax times the
// compressed bytes. Traces are 10 to 13 times as large as their compressed files; gzip could
// express 1,000 times, by which a small file would fill the memory.
inline constexpr int64_t kInflatedBytesFree = int64_t{64} << 20;
inline constexpr int64_t kInflationMax = 50;

// Returns the bytes of a file, decompressed when they are gzip. Returns kInvalidArgument when they
// exceed the limits above, and kOutOfMemory when there is no memory for them; a failure names the
// file.
Result<std::string> read_text_file(const std::filesystem::path& path);

// Replaces `path` atomically: readers see the old file or the new one, also after a power failure.
// The new file keeps the old one's mode; the umask decides the mode of a first one. When `path` is
// a symbolic link, its target is replaced. A device or a pipe is written to instead. The text is
// compressed when the name ends in ".gz"; the same text always gives the same bytes. A failure
// names the file and leaves the old one unchanged.
Status write_text_file(const std::filesystem::path& path, std::string_view text);

// Calls `read`, which returns a Result or a Status. An allocation that fails in it gives
// kOutOfMemory with the name of the file.
template <typename Read>
auto within_memory(const std::filesystem::path& path, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Status(ErrorCode::kOutOfMemory, path.string() + ": it does not fit into the memory");
}

// Returns `value` as text, with one line per element of its top-level arrays, so that large files
// stay readable.
std::string to_json_text(const nlohmann::ordered_json& value);

}  // namespace teraio
