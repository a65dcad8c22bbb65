#include "kubernetes/lease_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>

#include "kubernetes/documents.h"

namespace tailrace::kubernetes {
namespace {

namespace json = boost::json;

json::value spec_of(const LeaseClaim& claim) {
  return json::object{{"holderIdentity", claim.holder},
                      {"leaseDurationSeconds", std::llround(claim.lease_s)},
                      {"leaseTransitions", claim.transitions},
                      {"acquireTime", claim.acquire_time},
                      {"renewTime", claim.renew_time}};
}

}  // namespace

Result<LeaseRecord> parse_lease(std::string_view document) {
  DocumentReader reader;
  const auto root = reader.read(document);
  if (!root) return fail(root.error().with_context("a Lease"));
  const auto metadata = member_object(*root, "metadata");
  const auto version = metadata ? member_text(*metadata, "resourceVersion") : std::nullopt;
  if (member_text(*root, "kind") != "Lease" || !version || version->empty()) {
    return fail(ErrorCode::kDataLoss, "a Lease is expected, and this is none");
  }
  LeaseRecord record;
  record.resource_version = *version;
  const auto spec = member_object(*root, "spec");
  if (!spec) return record;
  record.holder = member_text(*spec, "holderIdentity").value_or("");
  record.acquire_time = member_text(*spec, "acquireTime").value_or("");
  const auto duration = member_int(*spec, "leaseDurationSeconds").value_or(0);
  record.duration_s = static_cast<double>(std::max<std::int64_t>(duration, 0));
  // The server keeps it as an int32.
  const auto transitions = member_int(*spec, "leaseTransitions").value_or(0);
  record.transitions =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(transitions, 0, 2'147'483'646));
  return record;
}

std::string new_lease(std::string_view ns, std::string_view name, const LeaseClaim& claim) {
  return json::serialize(json::object{{"apiVersion", "coordination.k8s.io/v1"},
                                      {"kind", "Lease"},
                                      {"metadata", json::object{{"name", name}, {"namespace", ns}}},
                                      {"spec", spec_of(claim)}});
}

std::string changed_lease(std::string_view document, const LeaseClaim& claim) {
  json::error_code ec;
  json::parse_options options;
  options.max_depth = 256;  // more than parse_lease() lets through
  json::value lease =
      json::parse(json::string_view(document.data(), document.size()), ec, {}, options);
  // Two parsers need not agree on every strange document: what only the other one read is left out,
  // and the version that was looked at is the one that counts.
  if (ec || !lease.is_object()) {
    lease = json::object{{"apiVersion", "coordination.k8s.io/v1"}, {"kind", "Lease"}};
  }
  lease.get_object()["kind"] = "Lease";
  json::value& metadata = lease.get_object()["metadata"];
  if (!metadata.is_object()) metadata = json::object{};
  if (const auto read = parse_lease(document)) {
    metadata.get_object()["resourceVersion"] = read->resource_version;
  }
  json::value& spec = lease.get_object()["spec"];
  if (!spec.is_object()) spec = json::object{};
  const json::value claimed = spec_of(claim);
  for (const auto& [key, value] : claimed.get_object()) spec.get_object()[key] = value;
  return json::serialize(lease);
}

std::string micro_time(double unix_s) {
  using namespace std::chrono;
  constexpr double kFirst = -62'167'219'200, kLast = 253'402'300'799;  // years 0 and 9999
  const double clipped = std::isnan(unix_s) ? 0 : std::clamp(unix_s, kFirst, kLast);
  const auto whole = sys_seconds(seconds(static_cast<std::int64_t>(std::floor(clipped))));
  const auto micros = std::min<std::int64_t>(
      999'999, static_cast<std::int64_t>((clipped - std::floor(clipped)) * 1e6));
  const auto day = floor<days>(whole);
  const year_month_day date(day);
  const hh_mm_ss time(whole - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(), micros);
}

}  // namespace tailrace::kubernetes
