#include "testing/cuda_emulation/nccl/mesh.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

namespace teraio::testing::emulated_nccl {
namespace {

// How long ranks wait for each other at the begin. Programs compute before their first collective,
// each as long as it takes.
constexpr auto kConnectLimit = std::chrono::minutes(10);
constexpr auto kConnectPause = std::chrono::milliseconds(2);

using TimePoint = std::chrono::steady_clock::time_point;

// What precedes the bytes of a message on a socket.
struct Header {
  Message::Kind kind;
  Label label;
};

struct Address {
  sockaddr_un address{};
  socklen_t size_bytes = 0;
};

// A name without a file: it begins with a zero.
Address address_of(const std::string& name, int rank) {
  const std::string text = "teraio-nccl-" + name + "-" + std::to_string(rank);
  Address result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, text.data(), text.size());
  result.size_bytes = offsetof(sockaddr_un, sun_path) + 1 + text.size();
  return result;
}

int make_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

std::string failure_of(const char* call) { return std::string(call) + ": " + std::strerror(errno); }

std::string listen_at(int listener, const std::string& name, int rank, int count) {
  const Address own = address_of(name, rank);
  const auto* address = reinterpret_cast<const sockaddr*>(&own.address);
  if (::bind(listener, address, own.size_bytes) != 0) return failure_of("bind");
  return ::listen(listener, count) != 0 ? failure_of("listen") : "";
}

bool has_payload(const Header& header) {
  return header.kind != Message::kReady && header.label.size_bytes > 0;
}

// What of a message is not sent yet, as at most two pieces.
std::vector<iovec> rest_of(const Header& header, const Message& message, size_t sent_bytes) {
  std::vector<iovec> pieces;
  const auto add = [&](const void* begin, size_t size_bytes) {
    const size_t skipped = std::min(sent_bytes, size_bytes);
    sent_bytes -= skipped;
    char* first = const_cast<char*>(static_cast<const char*>(begin)) + skipped;
    if (size_bytes > skipped) pieces.push_back({first, size_bytes - skipped});
  };
  add(&header, sizeof(header));
  if (has_payload(header)) add(message.data(), header.label.size_bytes);
  return pieces;
}

size_t size_of(const Message& message) {
  return sizeof(Header) + (message.kind == Message::kReady ? 0 : message.label.size_bytes);
}

}  // namespace

Mesh::Mesh(std::string name, int rank, int count, MeshOwner& owner)
    : name_(std::move(name)), rank_(rank), owner_(owner), peers_(count) {}

Mesh::~Mesh() { close(false); }

// --- Connecting ---------------------------------------------------------------------------------

std::string Mesh::connect() {
  const int listener = make_socket();
  if (listener < 0) return failure_of("socket");
  const std::string failure = connect_all(listener);
  ::close(listener);
  if (failure.empty()) start();
  return failure;
}

std::string Mesh::connect_all(int listener) {
  const int count = static_cast<int>(peers_.size());
  std::string failure = listen_at(listener, name_, rank_, count);
  for (int peer = 0; peer < rank_ && failure.empty(); ++peer) failure = connect_to(peer);
  for (int peer = rank_ + 1; peer < count && failure.empty(); ++peer)
    failure = accept_from(listener);
  return failure;
}

std::string Mesh::connect_to(int peer) {
  const Address other = address_of(name_, peer);
  const auto* address = reinterpret_cast<const sockaddr*>(&other.address);
  const TimePoint limit = std::chrono::steady_clock::now() + kConnectLimit;
  const int socket = peers_[peer].socket = make_socket();
  while (::connect(socket, address, other.size_bytes) != 0) {
    const bool may_come = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
    if (!may_come || std::chrono::steady_clock::now() > limit) return failure_of("connect");
    std::this_thread::sleep_for(kConnectPause);
  }
  return ::send(socket, &rank_, sizeof(rank_), MSG_NOSIGNAL) == sizeof(rank_) ? ""
                                                                              : failure_of("send");
}

std::string Mesh::accept_from(int listener) {
  pollfd readable = {listener, POLLIN, 0};
  const std::chrono::milliseconds limit = kConnectLimit;
  if (::poll(&readable, 1, static_cast<int>(limit.count())) <= 0) return failure_of("poll");
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return failure_of("accept");
  int peer = -1;
  const bool is_known = ::recv(socket, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer) &&
                        peer > rank_ && peer < static_cast<int>(peers_.size()) &&
                        peers_[peer].socket < 0;
  if (!is_known) {
    ::close(socket);
    return "another rank with the same number, or none, has connected";
  }
  peers_[peer].socket = socket;
  return "";
}

void Mesh::start() {
  for (const Peer& peer : peers_)
    if (peer.socket >= 0) ::fcntl(peer.socket, F_SETFL, O_NONBLOCK);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { work(); });
}

// --- What any thread calls ----------------------------------------------------------------------

void Mesh::post(int peer, Message message) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closing_ || peers_[peer].socket < 0) return;
    peers_[peer].outbound.push_back(std::move(message));
  }
  wake();
}

void Mesh::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
}

bool Mesh::has_outbound() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.outbound.empty(); });
}

bool Mesh::is_flushed() const {
  const std::lock_guard lock(mutex_);
  return !has_outbound();
}

void Mesh::close(bool flushes) {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    flushes_ = flushes;
  }
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_)
    if (const int socket = std::exchange(peer.socket, -1); socket >= 0) ::close(socket);
  if (const int event = std::exchange(wake_, -1); event >= 0) ::close(event);
}

// --- The mesh's thread --------------------------------------------------------------------------

void Mesh::work() {
  for (;;) {
    std::vector<pollfd> wanted = {{wake_, POLLIN, 0}};
    std::vector<int> numbers = {-1};
    {
      const std::lock_guard lock(mutex_);
      if (is_closing_ && !(flushes_ && has_outbound())) return;
      for (int number = 0; number < static_cast<int>(peers_.size()); ++number) {
        const Peer& peer = peers_[number];
        if (peer.socket < 0) continue;
        const int events = POLLIN | (peer.outbound.empty() ? 0 : POLLOUT);
        wanted.push_back({peer.socket, static_cast<short>(events), 0});
        numbers.push_back(number);
      }
    }
    if (::poll(wanted.data(), wanted.size(), -1) < 0) continue;
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t woken = ::read(wake_, &count, sizeof(count));
    for (size_t i = 1; i < wanted.size(); ++i) {
      const int events = wanted[i].revents;
      bool is_open = (events & POLLOUT) == 0 || send_some(peers_[numbers[i]]);
      // What has arrived before the end is read in any case.
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 || !is_open)
        is_open = receive_some(numbers[i]);
      if (!is_open) end(numbers[i]);
    }
    if (is_flushed()) owner_.note_flushed();
  }
}

bool Mesh::send_some(Peer& peer) {
  const std::lock_guard lock(mutex_);
  while (!peer.outbound.empty()) {
    const Message& message = peer.outbound.front();
    const Header header = {message.kind, message.label};
    std::vector<iovec> pieces = rest_of(header, message, peer.sent_bytes);
    msghdr request = {};
    request.msg_iov = pieces.data();
    request.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(peer.socket, &request, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    peer.sent_bytes += static_cast<size_t>(sent);
    if (peer.sent_bytes < size_of(message)) continue;
    peer.outbound.pop_front();
    peer.sent_bytes = 0;
  }
  return true;
}

bool Mesh::receive_some(int number) {
  Peer& peer = peers_[number];
  for (;;) {
    Header header = {peer.inbound.kind, peer.inbound.label};
    const bool is_header = peer.received_bytes < sizeof(header);
    char* to = reinterpret_cast<char*>(&header) + peer.received_bytes;
    size_t wanted = sizeof(header) - peer.received_bytes;
    if (!is_header) {
      to = peer.inbound_bytes->data() + (peer.received_bytes - sizeof(header));
      wanted = sizeof(header) + peer.inbound_bytes->size() - peer.received_bytes;
    }
    const ssize_t received = ::recv(peer.socket, to, wanted, 0);
    if (received == 0) return false;
    if (received < 0) return errno == EAGAIN || errno == EINTR;
    peer.inbound.kind = header.kind;
    peer.inbound.label = header.label;
    take_bytes(number, static_cast<size_t>(received));
  }
}

void Mesh::take_bytes(int number, size_t count) {
  Peer& peer = peers_[number];
  peer.received_bytes += count;
  if (peer.received_bytes < sizeof(Header)) return;
  if (peer.received_bytes == sizeof(Header)) {
    const bool has_bytes = has_payload({peer.inbound.kind, peer.inbound.label});
    peer.inbound_bytes =
        std::make_shared<Bytes>(has_bytes ? peer.inbound.label.size_bytes : size_t{0});
  }
  if (peer.received_bytes < sizeof(Header) + peer.inbound_bytes->size()) return;
  peer.inbound.bytes = std::move(peer.inbound_bytes);
  peer.received_bytes = 0;
  owner_.receive(number, std::exchange(peer.inbound, {}));
}

void Mesh::end(int number) {
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[number];
    ::close(std::exchange(peer.socket, -1));
    peer.outbound.clear();
  }
  owner_.lose(number);
}

}  // namespace teraio::testing::emulated_nccl
