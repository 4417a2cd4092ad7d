/// The wait for the first report of connectivity, in a queue that counts as offline until then.
package struct FirstReport: Sendable {
    /// How long it may take before a person should know that nothing is sent for lack of it, in milliseconds.
    package static let patience: Int64 = 60_000

    package static let warning =
        "connectivity was not reported within 60 s of the opening: the queue counts as offline (option initial_connectivity)"

    /// When the warning is due (monotonic); `Int64.max`: never.
    package private(set) var deadline = Int64.max

    package init(_ options: Options, openedAt now: Int64) {
        // What is open for reading only sends nothing anyway.
        if options.initialConnectivity == .offline, !options.readOnly { deadline = now.addingClamped(Self.patience) }
    }

    /// Connectivity was reported.
    package mutating func reported() { deadline = Int64.max }

    /// Whether the warning is due; only once.
    package mutating func isOverdue(at now: Int64) -> Bool {
        guard now >= deadline else { return false }
        deadline = Int64.max
        return true
    }
}
