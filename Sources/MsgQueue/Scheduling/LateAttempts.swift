/// The most recent attempts that timed out.
struct LateAttempts {
    private static let ceiling = 1024
    private var flights: [UInt64: (flight: Flight, contentHash: Int64)] = [:]
    private var order: [UInt64] = []

    mutating func add(_ flight: Flight, contentHash: Int64) {
        flights[flight.token] = (flight, contentHash)
        order.append(flight.token)
        guard order.count > Self.ceiling else { return }
        flights[order.removeFirst()] = nil
    }

    /// The attempt with this token and the hash of its message's content; nil: it was answered or dropped.
    subscript(token: UInt64) -> (flight: Flight, contentHash: Int64)? { flights[token] }

    /// The content of the message has another hash, but was not edited.
    mutating func corrected(_ sequence: Int64, contentHash: Int64) {
        for (token, late) in flights where late.flight.sequence == sequence { flights[token] = (late.flight, contentHash) }
    }

    mutating func remove(_ token: UInt64) {
        guard flights.removeValue(forKey: token) != nil else { return }
        order.removeAll { $0 == token }
    }
}
