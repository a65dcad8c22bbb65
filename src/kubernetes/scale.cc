#include "tailrace/kubernetes/scale.h"

#include <fmt/format.h>

#include "kubernetes/documents.h"

namespace tailrace::kubernetes {
namespace {

constexpr int kConflictsMax = 4;

ApiRequest get(const std::string& path) {
  ApiRequest request;
  request.path = path;
  return request;
}

class ChangeCall final : public ApiCall {
 public:
  ChangeCall(Api& api, ScaleChange change, UniqueFunction<void(Result<ScaleOutcome>)> done)
      : api_(api), change_(std::move(change)), done_(std::move(done)) {
    read();
  }

 private:
  void read() {
    call_ = read_scale(api_, change_.path, [this](Result<Scale> scale) {
      if (!scale) return done_with(fail(std::move(scale).error()));
      if (scale->spec_replicas == change_.to) {
        return done_with(ScaleOutcome{ScaleOutcome::Kind::kAlready, std::move(*scale)});
      }
      if (scale->spec_replicas != change_.from) {
        return done_with(ScaleOutcome{ScaleOutcome::Kind::kOvertaken, std::move(*scale)});
      }
      patch(scale->resource_version);
    });
  }

  void patch(const std::string& version) {
    ApiRequest request;
    request.method = "PATCH";
    request.path = change_.path;
    request.content_type = kMergePatch;
    request.body =
        fmt::format(R"({{"metadata":{{"resourceVersion":"{}"}},"spec":{{"replicas":{}}}}})",
                    version, change_.to);
    const ApiRequest copy = request;
    call_ = api_.send(std::move(request), [this, copy](const Result<ApiAnswer>& answer) {
      // The object was written meanwhile, its status perhaps: whose number stands there now?
      if (answer && answer->status == 409 && ++conflicts_ < kConflictsMax) return read();
      auto scale = read_answer(copy, answer, parse_scale);
      if (!scale) return done_with(fail(std::move(scale).error()));
      done_with(ScaleOutcome{ScaleOutcome::Kind::kPatched, std::move(*scale)});
    });
  }

  /// The last thing that a handler does: it may destroy the call.
  void done_with(Result<ScaleOutcome> result) {
    auto done = std::move(done_);
    done(std::move(result));
  }

  Api& api_;
  const ScaleChange change_;
  UniqueFunction<void(Result<ScaleOutcome>)> done_;
  int conflicts_ = 0;
  std::unique_ptr<ApiCall> call_;
};

/// Versions go into a document that is put together as text.
bool plain_version(std::string_view version) {
  return version.find_first_of("\"\\") == std::string_view::npos;
}

}  // namespace

Result<Scale> parse_scale(std::string_view document) {
  const auto damaged = [](std::string_view what) {
    return fail(ErrorCode::kDataLoss, fmt::format("a Scale {}", what));
  };
  DocumentReader reader;
  const auto root = reader.read(document);
  if (!root) return fail(root.error().with_context("a Scale"));
  if (member_text(*root, "kind") != "Scale") return damaged("is expected, and this is none");
  const auto metadata = member_object(*root, "metadata");
  const auto spec = member_object(*root, "spec");
  const auto status = member_object(*root, "status");
  if (!metadata || !spec) return damaged("without metadata or spec");
  Scale scale;
  // The server leaves a number out where it is 0.
  scale.spec_replicas = member_int(*spec, "replicas").value_or(0);
  if (status) {
    scale.status_replicas = member_int(*status, "replicas").value_or(0);
    scale.selector = member_text(*status, "selector").value_or("");
  }
  if (scale.spec_replicas < 0 || scale.status_replicas < 0) return damaged("below 0");
  scale.resource_version = member_text(*metadata, "resourceVersion").value_or("");
  if (scale.resource_version.empty() || !plain_version(scale.resource_version)) {
    return damaged("without a usable metadata.resourceVersion");
  }
  return scale;
}

std::unique_ptr<ApiCall> read_scale(Api& api, std::string path,
                                    UniqueFunction<void(Result<Scale>)> done) {
  ApiRequest request = get(path);
  return api.send(std::move(request), [path = std::move(path), done = std::move(done)](
                                          const Result<ApiAnswer>& answer) mutable {
    done(read_answer(get(path), answer, parse_scale));
  });
}

std::unique_ptr<ApiCall> change_scale(Api& api, ScaleChange change,
                                      UniqueFunction<void(Result<ScaleOutcome>)> done) {
  return std::make_unique<ChangeCall>(api, std::move(change), std::move(done));
}

}  // namespace tailrace::kubernetes
