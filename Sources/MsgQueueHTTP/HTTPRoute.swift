import MsgQueue

/// How connections are made.
struct HTTPRoute: Sendable {
    let proxy: HTTPProxy?
    let authorities: String?
    let certificate: HTTPTransport.Certificate?
}

extension HTTPTransport {
    /// The certificate of the client, for a server of https that wants one.
    ///
    /// libcurl reads the files for each connection. While they cannot be used (a wrong password, another key), the queue is offline.
    public struct Certificate: Sendable {
        /// The path of a PEM file with the certificate and its chain.
        public var path: String
        /// The path of a PEM file with the private key; nil: it is in the file of the certificate.
        public var keyPath: String?
        /// The password of the key; nil: it has none.
        public var password: String?

        /// Makes a certificate; reads no file yet.
        ///
        /// - Parameters:
        ///   - path: The path of a PEM file with the certificate and its chain.
        ///   - keyPath: The path of a PEM file with the private key; nil: it is in the file of the certificate.
        ///   - password: The password of the key; nil: it has none.
        public init(path: String, keyPath: String? = nil, password: String? = nil) {
            (self.path, self.keyPath, self.password) = (path, keyPath, password)
        }
    }
}
