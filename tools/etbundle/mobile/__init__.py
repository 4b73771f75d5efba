"""Packages of apps for phones: APK, AAR, Swift."""
