# Every library comes from a Debian package; tools/setup installs them. docs/dependencies.md says why each.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json random iostreams)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected QUIET)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
find_package(Protobuf REQUIRED)
find_library(GRPCPP_LIBRARY grpc++ REQUIRED)
find_library(GRPC_LIBRARY grpc REQUIRED)
find_library(GPR_LIBRARY gpr REQUIRED)
pkg_check_modules(absl_synchronization REQUIRED IMPORTED_TARGET absl_synchronization)  # gRPC's headers lock with it
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# Third-party headers are not held to our warnings: they are system includes on Debian already.
