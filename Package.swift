// swift-tools-version: 6.0
import PackageDescription

// The linker script and the soname are for the dynamic library. SwiftPM accepts them only in the target; they have no effect
// on a package that links the Swift product statically.
let include = "\(Context.packageDirectory)/Include"

// For the thread sanitizer, `Tests/run` builds only the tests that use threads: the others run in virtual time, or call rules.
let testsOnlyThreads = Context.environment["MSGQ_TEST_THREADS"] != nil

// For its other tests `Tests/run` builds the engine with optimisation and assertions: they then need 180 seconds of processor time instead
// of 430. The build needs 40 seconds more, and is not incremental.
let optimised: [SwiftSetting] =
    Context.environment["MSGQ_TEST_OPTIMISED"] == nil
    ? [] : [.unsafeFlags(["-O", "-whole-module-optimization", "-num-threads", "2", "-assert-config", "Debug"])]

// The package builds on Linux with glibc only, so only packages of Debian and Ubuntu are named as providers. SwiftPM cannot exclude a
// platform; Sources/README.md, "A port", says what another one needs.
let package = Package(
    name: "libmsgqueue",
    products: [
        // With a type, so that `swift build --product` builds one alone. Without it SwiftPM builds everything, also what needs libcurl.
        .library(name: "MsgQueue", type: .static, targets: ["MsgQueue"]),
        .library(name: "MsgQueueHTTP", type: .static, targets: ["MsgQueueHTTP"]),
        .library(name: "MsgQueueFoundation", type: .static, targets: ["MsgQueueFoundation"]),
        .library(name: "MsgQueueOutbox", type: .static, targets: ["MsgQueueOutbox"]),
        .library(name: "MsgQueueSimulation", type: .static, targets: ["MsgQueueSimulation"]),
        .library(name: "msgqueue", type: .dynamic, targets: ["MsgQueueABI"]),
        .executable(name: "msgqueue-bench", targets: ["MsgQueueBench"]),
    ],
    targets: [
        .systemLibrary(
            name: "CSQLite",
            pkgConfig: "sqlite3",
            providers: [.apt(["libsqlite3-dev"])]
        ),
        // Without pkgConfig: SwiftPM would look for it, and warn that it is missing, in every build of any product. The module map links it.
        .systemLibrary(name: "CCurl"),
        .systemLibrary(name: "CPlatform"),
        .systemLibrary(name: "CMsgQueue", path: "Include"),
        .target(name: "MsgQueue", dependencies: ["CSQLite", "CPlatform"], swiftSettings: optimised),
        .target(
            name: "MsgQueueABI",
            dependencies: ["MsgQueue", "CMsgQueue"],
            linkerSettings: [
                .unsafeFlags(
                    [
                        "-Xlinker", "--version-script=\(include)/msgqueue.map",
                        "-Xlinker", "-soname=libmsgqueue.so.0",
                        // Unloading would unmap code that ending threads still run.
                        "-Xlinker", "-z", "-Xlinker", "nodelete",
                    ],
                    .when(platforms: [.linux])
                )
            ]
        ),
        .target(name: "MsgQueueHTTP", dependencies: ["MsgQueue", "CCurl"]),
        .target(name: "MsgQueueFoundation", dependencies: ["MsgQueue"]),
        .target(name: "MsgQueueOutbox", dependencies: ["MsgQueue", "CSQLite"]),
        .target(name: "MsgQueueSimulation", dependencies: ["MsgQueue"]),
        .executableTarget(name: "MsgQueueBench", dependencies: ["MsgQueue", "MsgQueueSimulation", "CSQLite"]),
        .testTarget(
            name: "MsgQueueTests", dependencies: ["MsgQueue", "MsgQueueSimulation", "CSQLite"], path: "Tests/MsgQueueTests",
            sources: testsOnlyThreads ? ["Support", "Threads"] : nil),
        .testTarget(
            name: "MsgQueueHTTPTests", dependencies: ["MsgQueue", "MsgQueueHTTP"], path: "Tests/MsgQueueHTTPTests"),
        .testTarget(
            name: "MsgQueueFoundationTests", dependencies: ["MsgQueue", "MsgQueueFoundation"], path: "Tests/MsgQueueFoundationTests"),
        .testTarget(
            name: "MsgQueueOutboxTests", dependencies: ["MsgQueue", "MsgQueueOutbox", "CSQLite"], path: "Tests/MsgQueueOutboxTests"),
        .testTarget(
            name: "MsgQueueSimulationTests", dependencies: ["MsgQueue", "MsgQueueSimulation"], path: "Tests/MsgQueueSimulationTests"),
    ],
    swiftLanguageModes: [.v6]
)

if testsOnlyThreads {
    package.targets.removeAll { $0.type == .test && !["MsgQueueTests", "MsgQueueHTTPTests"].contains($0.name) }
}
