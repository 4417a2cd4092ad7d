/// What `check` and `salvage` found in a store.
package struct CheckReport: Sendable, Equatable {
    /// Nothing is wrong with the store.
    package let isSound: Bool
    /// Messages, of every status, that are what was written.
    package let whole: Int64
    /// Messages that are not, or that cannot be read.
    package let damaged: Int64
    /// Messages that were in a log that was lost, as far as their number is known.
    package let missing: Int64
    /// Their sequences: the first, 0: none are missing; the last, 0: it is not known how many are missing.
    package let firstMissing: Int64
    package let lastMissing: Int64
    /// The findings in sentences, for a person.
    package let text: String
}
