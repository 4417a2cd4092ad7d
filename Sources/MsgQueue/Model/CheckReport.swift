/// What `check` and `salvage` found in a store.
package struct CheckReport: Sendable, Equatable {
    /// No damage was found.
    package let isSound: Bool
    /// The number of undamaged messages, of every status.
    package let whole: Int64
    /// The number of messages that are damaged or cannot be read.
    package let damaged: Int64
    /// The number of messages that were in a lost log, as far as it is known.
    package let missing: Int64
    /// The first missing sequence; nil: none is missing. And the last; nil: unknown.
    package let firstMissing: Int64?
    package let lastMissing: Int64?
    /// The findings in sentences, for users.
    package let text: String
}
