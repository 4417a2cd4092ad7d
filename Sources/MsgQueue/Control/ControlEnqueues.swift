/// Consecutive requests to enqueue of one client, which share a transaction.
struct ControlEnqueues {
    /// The bodies of one transaction have at most this size, unless there is only one.
    private static let sizeCeiling = 1 << 20

    private var requests: [(request: ControlRequest, draft: ControlDraft)] = []
    private var size = 0

    /// Adds a request. Returns false if it is of another kind, or must wait for the next transaction.
    mutating func add(_ request: ControlRequest) -> Bool {
        guard case .success(.enqueue(let draft)) = request.call else { return false }
        guard requests.isEmpty || size + draft.body.count <= Self.sizeCeiling else { return false }
        requests.append((request, draft))
        size += draft.body.count
        return true
    }

    /// Removes and returns the requests.
    mutating func takeAll() -> [(request: ControlRequest, draft: ControlDraft)] {
        defer { self = ControlEnqueues() }
        return requests
    }
}
