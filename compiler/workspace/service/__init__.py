"""The service of a workspace: users submit dataflows over HTTP (docs/service.md)."""
