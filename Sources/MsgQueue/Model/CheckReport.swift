/// What `check` and `salvage` found in a store.
public struct CheckReport: Sendable, Equatable {
    /// Nothing is wrong with the store.
    public let isSound: Bool
    /// Messages, of every status, that are what was written.
    public let whole: Int64
    /// Messages that are not, or that cannot be read.
    public let damaged: Int64
    /// Messages that were in a log that was lost, as far as their number is known.
    public let missing: Int64
    /// Their sequences: the first, 0: none are missing; the last, 0: it is not known how many are missing.
    public let firstMissing: Int64
    public let lastMissing: Int64
    /// The findings in sentences, for a person.
    public let text: String
}
