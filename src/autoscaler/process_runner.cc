#include "tailrace/autoscaler/process_runner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <system_error>

#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::size_t kProcBytesMax = std::size_t{4} << 20;

std::string error_text(int error) {
  return std::generic_category().message(error);
}

std::string boot_id() {
  const auto text = core::read_file("/proc/sys/kernel/random/boot_id", 128);
  return text ? std::string(core::trim(*text)) : std::string();
}

struct Stat {
  char state = '?';
  int parent = 0, group = 0;
  std::uint64_t started = 0;
};

/// Fields of /proc/<pid>/stat after the name, which may hold anything and ends with the last ')'.
std::optional<Stat> read_stat(int pid) {
  const auto text = core::read_file(fmt::format("/proc/{}/stat", pid), kProcBytesMax);
  if (!text) return std::nullopt;
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return std::nullopt;
  const auto fields = core::split(core::trim(std::string_view(*text).substr(name_end + 2)), ' ');
  constexpr std::size_t kState = 0, kParent = 1, kGroup = 2, kStarted = 19;
  if (fields.size() <= kStarted || fields[kState].empty()) return std::nullopt;
  const auto parent = core::parse_int(fields[kParent]);
  const auto group = core::parse_int(fields[kGroup]);
  const auto started = core::parse_int(fields[kStarted]);
  if (!parent || !group || !started) return std::nullopt;
  return Stat{fields[kState].front(), static_cast<int>(*parent), static_cast<int>(*group),
              static_cast<std::uint64_t>(*started)};
}

bool has_ended(const Stat& stat) {
  return stat.state == 'Z' || stat.state == 'X';
}

/// posix_spawn's arguments, freed at the end.
class SpawnArguments {
 public:
  SpawnArguments() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnArguments() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnArguments(const SpawnArguments&) = delete;
  SpawnArguments& operator=(const SpawnArguments&) = delete;

  void prepare(const ProcessSpec& spec) {
    const std::string log = spec.log_path.empty() ? "/dev/null" : spec.log_path;
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0640);
    ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    // A listening socket that an engine inherited would keep our port after we are gone.
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    if (!spec.folder.empty()) {
      ::posix_spawn_file_actions_addchdir_np(&actions_, spec.folder.c_str());
    }
    sigset_t all, none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<std::string> environment_of(const ProcessSpec& spec) {
  std::map<std::string, std::string> values;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    values.emplace(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  for (const auto& name : spec.hidden) values.erase(name);
  for (const auto& [name, value] : spec.environment) values[name] = value;
  std::vector<std::string> entries;
  entries.reserve(values.size());
  for (const auto& [name, value] : values) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (auto& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::string describe_end(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("exit status {}", info.si_status);
  return fmt::format("signal {} ({})", info.si_status, ::strsignal(info.si_status));
}

bool has_entry(std::string_view block, std::string_view entry) {
  for (const auto part : core::split(block, '\0')) {
    if (part == entry) return true;
  }
  return false;
}

/// Living processes with `entry` in their environment, by id.
std::map<int, Stat> with_environment(std::string_view entry) {
  std::map<int, Stat> found;
  DIR* const proc = ::opendir("/proc");
  if (proc == nullptr) return found;
  while (const dirent* one = ::readdir(proc)) {
    const auto pid = core::parse_int(one->d_name);
    if (!pid || *pid <= 1 || *pid > 1 << 30) continue;
    const auto stat = read_stat(static_cast<int>(*pid));
    if (!stat || has_ended(*stat)) continue;
    const auto block = core::read_file(fmt::format("/proc/{}/environ", *pid), kProcBytesMax);
    if (block && has_entry(*block, entry)) found.emplace(static_cast<int>(*pid), *stat);
  }
  ::closedir(proc);
  return found;
}

/// Who may have become the parent of a process that lost its own: init, or a reaper between it and
/// us.
std::set<int> adopters() {
  constexpr int kMost = 1000;
  std::set<int> all{1};
  int pid = ::getppid();
  for (int i = 0; i < kMost && pid > 1; ++i) {
    all.insert(pid);
    const auto stat = read_stat(pid);
    pid = stat ? stat->parent : 0;
  }
  return all;
}

/// Nothing where the number has become somebody else's.
void kill_exactly(int pid, std::uint64_t started) {
  // By number: glibc 2.36 declares both without the C linkage that they have.
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return;
  const auto stat = read_stat(pid);
  if (stat && stat->started == started) {
    ::syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
  }
  ::close(descriptor);
}

class SystemProcessRunner final : public ProcessRunner {
 public:
  Result<ProcessId> start(const ProcessSpec& spec) override {
    if (spec.argv.empty() || spec.argv.front().empty()) {
      return fail(ErrorCode::kInvalidArgument, "the command is empty");
    }
    std::vector<std::string> arguments = spec.argv, entries = environment_of(spec);
    auto argv = pointers(arguments), envp = pointers(entries);
    SpawnArguments spawn;
    spawn.prepare(spec);
    pid_t pid = 0;
    const int error = ::posix_spawnp(&pid, argv.front(), spawn.actions(), spawn.attributes(),
                                     argv.data(), envp.data());
    if (error != 0) {
      const bool missing = error == ENOENT || error == EACCES || error == ENOEXEC;
      return fail(missing ? ErrorCode::kNotFound : ErrorCode::kInternal,
                  fmt::format("{} cannot be started{}: {}", core::quoted(spec.argv.front(), 200),
                              spec.folder.empty() ? "" : " in " + core::quoted(spec.folder, 200),
                              error_text(error)));
    }
    children_.push_back(pid);
    const auto stat = read_stat(pid);  // there until it is waited for
    return ProcessId{pid, stat ? stat->started : 0, boot_};
  }

  ProcessLook look(const ProcessId& id) override {
    const auto child = std::find(children_.begin(), children_.end(), id.pid);
    if (child == children_.end()) {
      if (is_it(id)) return {true, {}};
      return {false, "ended"};
    }
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(id.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      children_.erase(child);
      return {false, "ended"};
    }
    if (info.si_pid == 0) return {true, {}};
    // While it has not been waited for, nobody else can have its number.
    ::kill(-id.pid, SIGKILL);
    ::waitid(P_PID, static_cast<id_t>(id.pid), &info, WEXITED | WNOHANG);
    children_.erase(child);
    return {false, describe_end(info)};
  }

  void signal(const ProcessId& id, int signal) override {
    if (is_it(id)) ::kill(-id.pid, signal);
  }

  std::optional<ProcessId> find(const std::string& name, const std::string& value) override {
    for (const auto& [pid, stat] : with_environment(fmt::format("{}={}", name, value))) {
      if (stat.group == pid) return ProcessId{pid, stat.started, boot_};
    }
    return std::nullopt;
  }

  void end_left(const std::string& name, const std::string& value,
                const ProcessId& ended) override {
    if (ended.boot != boot_) return;
    constexpr int kRounds = 3;  // what is started while it is looked for is found the next time
    const std::set<int> reapers = adopters();
    for (int round = 0; round < kRounds; ++round) {
      auto marked = with_environment(fmt::format("{}={}", name, value));
      std::erase_if(marked, [&](const auto& one) { return one.second.started < ended.started; });
      std::set<int> left;
      for (bool more = true; more;) {
        more = false;
        for (const auto& [pid, stat] : marked) {
          const bool lost = reapers.contains(stat.parent) || left.contains(stat.parent);
          if (lost && left.insert(pid).second) more = true;
        }
      }
      if (left.empty()) return;
      for (const int pid : left) kill_exactly(pid, marked.at(pid).started);
    }
  }

  bool port_is_free(const std::string& host, std::uint16_t port) override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return true;  // it will tell
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return true;
    const int on = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool free =
        ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(descriptor);
    return free;
  }

 private:
  /// Does that process live, and is it the one that was meant?
  bool is_it(const ProcessId& id) const {
    if (id.pid <= 1 || id.boot != boot_) return false;
    const auto stat = read_stat(id.pid);
    return stat && stat->started == id.started && !has_ended(*stat);
  }

  std::string boot_ = boot_id();
  std::vector<pid_t> children_;
};

}  // namespace

std::unique_ptr<ProcessRunner> make_process_runner() {
  return std::make_unique<SystemProcessRunner>();
}

}  // namespace tailrace::autoscaler
