/// The measured workloads. Bodies have 256 bytes; every write is on disk before it counts.
enum Work: String, CaseIterable {
    case single = "W1"
    case threads = "W2"
    case batches = "W3"
    case drain = "W4"

    static let bodySize = 256
    static let threadCount = 8
    static let batchSize = 1_000
    /// The number of messages queued before a drain, per second of measuring.
    static let drainPerSecond = 6_000

    var title: String {
        switch self {
        case .single: "one thread, one message at a time"
        case .threads: "\(Self.threadCount) threads, one message at a time each"
        case .batches: "batches of \(Self.batchSize)"
        case .drain: "send the queued messages one at a time (peers: delete them)"
        }
    }
}

/// A store of messages: the queue or a simple peer.
protocol Contender {
    /// Creates an empty store in `directory`.
    init(directory: String) throws
    /// Stores one message. Any thread.
    func put(_ body: [UInt8]) throws
    /// Stores several, all or none.
    func put(_ bodies: [[UInt8]]) throws
    /// Removes `count` messages one after another, as a sender would. Returns false if this peer does not support that.
    func drain(count: Int) throws -> Bool
    func close() throws
}

/// The error that ends a benchmark.
struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
