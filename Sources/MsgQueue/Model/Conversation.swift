/// A conversation as a list of conversations shows it.
package struct Conversation: Sendable {
    package let name: String
    package let counts: Counts
    /// Its newest message, without the body.
    package let last: Message
}
