#include "tailrace/autoscaler/settings_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "autoscaler/kept_entries.h"
#include "tailrace/core/text.h"
#include "tailrace/kubernetes/config_map.h"

namespace tailrace::autoscaler {
namespace {

namespace fs = std::filesystem;
using capacity::ConfigEntry;

constexpr std::size_t kBytesMax = 2U << 20;  ///< etcd keeps no object beyond 1.5 MiB
constexpr std::size_t kEntriesMax = 10'000;
constexpr int kTries = 3;

class BuiltInSettings final : public SettingsSource {
 public:
  BuiltInSettings() { settings_.config = capacity::Config::with_defaults(); }

  const Settings& read() override {
    settings_.changed = settings_.version == 0;
    settings_.version = 1;
    return settings_;
  }
  std::string_view origin() const override { return "built-in settings"; }

 private:
  Settings settings_;
};

/// A folder's entries at one moment.
struct FolderReading {
  std::vector<ConfigEntry> entries;
  std::string bytes;  ///< all of them, to tell one reading from another
};

/// The kubelet keeps the files in a folder of their own and lets `..data` point to it; a new
/// version is a new folder, and the link is moved. Reading through the link could mix the two.
fs::path versioned(const fs::path& folder) {
  std::error_code error;
  const auto link = fs::read_symlink(folder / "..data", error);
  if (error) return folder;
  return link.is_absolute() ? link : folder / link;
}

Result<FolderReading> read_folder_once(const fs::path& folder) {
  FolderReading reading;
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) continue;
    std::error_code ignored;
    if (it->is_regular_file(ignored)) files.push_back(it->path());
    if (files.size() > kEntriesMax) {
      return fail(ErrorCode::kResourceExhausted, fmt::format("more than {} files", kEntriesMax));
    }
  }
  if (error) return fail(ErrorCode::kUnavailable, error.message());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    auto text = core::read_regular_file(file.string(), kBytesMax);
    if (!text) return fail(text.error());
    if (reading.bytes.size() + text->size() > kBytesMax) {
      return fail(ErrorCode::kResourceExhausted, fmt::format("more than {} bytes", kBytesMax));
    }
    const auto name = file.filename().string();
    reading.bytes += fmt::format("{}:{}:{}:{}", name.size(), name, text->size(), *text);
    reading.entries.push_back({name, *std::move(text), 1});
  }
  return reading;
}

/// Again where the folder was swapped in between.
Result<FolderReading> read_folder(const fs::path& folder) {
  Result<FolderReading> reading = fail(ErrorCode::kInternal, "");
  for (int i = 0; i < kTries; ++i) {
    const auto version = versioned(folder);
    reading = read_folder_once(version);
    if (reading && versioned(folder) == version) return reading;
  }
  if (reading) return fail(ErrorCode::kUnavailable, "it changes while it is read");
  return reading;
}

class MountedSettings final : public SettingsSource {
 public:
  explicit MountedSettings(std::string path) : path_(std::move(path)), kept_(path_) {}

  const Settings& read() override {
    kept_.begin();
    std::error_code error;
    const auto kind = fs::status(path_, error).type();
    if (kind == fs::file_type::not_found) {
      last_.reset();
      kept_.drop(path_ + " does not exist");
    } else if (kind == fs::file_type::directory) {
      take(read_folder(path_));
    } else {
      take_file();
    }
    return kept_.settings();
  }
  std::string_view origin() const override { return path_; }

 private:
  void take(Result<FolderReading> reading) {
    if (!reading) {
      last_.reset();
      kept_.keep(fmt::format("{}: {}", path_, reading.error().message));
      return;
    }
    if (last_ == reading->bytes) return;
    last_ = std::move(reading->bytes);
    kept_.take(std::move(reading->entries));
  }

  void take_file() {
    auto text = core::read_regular_file(path_, kBytesMax);
    if (!text) return take(fail(text.error()));
    if (last_ == *text) return;
    auto entries = capacity::read_entries(*text, path_);
    last_ = *std::move(text);
    // Its message begins with the path.
    if (!entries) return kept_.keep(entries.error().message);
    kept_.take(*std::move(entries));
  }

  std::string path_;
  KeptEntries kept_;
  std::optional<std::string> last_;  ///< bytes of the last reading
};

class WatchedSettings final : public SettingsSource {
 public:
  WatchedSettings(kubernetes::Api& api, const std::string& ns, const std::string& name)
      : name_(name), kept_(fmt::format("ConfigMap {}/{}", ns, name)) {
    kubernetes::WatchHandlers handlers;
    handlers.on_event = [this](std::string_view type, std::string_view object) {
      on_event(type, object);
    };
    handlers.on_restart = [this] {
      listing_ = true;
      unreadable_ = false;
      listed_.reset();
    };
    handlers.on_synced = [this] {
      listing_ = false;
      // One that cannot be read is not one that is gone.
      if (unreadable_) return;
      trouble_.clear();
      set(std::move(listed_));
      listed_.reset();
    };
    handlers.on_interrupted = [this](const Error& error) { trouble_ = error.message; };
    watch_ = api.watch(kubernetes::with_query(kubernetes::config_map_path(ns), "fieldSelector",
                                              "metadata.name=" + name),
                       std::move(handlers));
  }

  const Settings& read() override {
    kept_.begin();
    const bool news = std::exchange(news_, false);
    if (!trouble_.empty()) {
      // What came before the trouble counts all the same.
      if (news) enforce();
      kept_.keep(fmt::format("{} cannot be watched: {}", origin(), trouble_));
      told_ = true;
    } else if (news || told_) {
      enforce();
      told_ = false;
    }
    return kept_.settings();
  }
  bool known() const override { return known_ || !trouble_.empty(); }
  std::string_view origin() const override { return kept_.origin(); }

 private:
  using Entries = std::vector<ConfigEntry>;

  void on_event(std::string_view type, std::string_view object) {
    auto map = kubernetes::parse_config_map(object);
    if (!map) {
      trouble_ = map.error().message;
      unreadable_ = true;
      return;
    }
    if (map->name != name_) return;
    trouble_.clear();
    std::optional<Entries> now;
    if (type != "DELETED") {
      now.emplace();
      for (auto& [key, text] : map->data) now->push_back({key, std::move(text), 1});
    }
    if (listing_) {
      listed_ = std::move(now);
    } else {
      set(std::move(now));
    }
  }

  void set(std::optional<Entries> entries) {
    known_ = true;
    news_ = true;
    entries_ = std::move(entries);
  }

  void enforce() {
    if (!known_) return;
    if (entries_) {
      kept_.take(*entries_);
    } else {
      kept_.drop(fmt::format("{} does not exist", origin()));
    }
  }

  std::string name_;
  KeptEntries kept_;
  bool known_ = false;       ///< a list has come
  bool news_ = false;        ///< since the last reading
  bool listing_ = false;     ///< between on_restart and on_synced
  bool unreadable_ = false;  ///< an object of the list under way
  bool told_ = false;        ///< that the watch is in trouble
  std::string trouble_;
  std::optional<Entries> entries_, listed_;  ///< empty: there is no such ConfigMap
  std::unique_ptr<kubernetes::ApiCall> watch_;
};

}  // namespace

std::unique_ptr<SettingsSource> built_in_settings() {
  return std::make_unique<BuiltInSettings>();
}

std::unique_ptr<SettingsSource> mounted_settings(std::string path) {
  return std::make_unique<MountedSettings>(std::move(path));
}

std::unique_ptr<SettingsSource> watched_settings(kubernetes::Api& api, const std::string& ns,
                                                 const std::string& name) {
  return std::make_unique<WatchedSettings>(api, ns, name);
}

}  // namespace tailrace::autoscaler
